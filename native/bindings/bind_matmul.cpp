// GEMM as functions.
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "bindings/packed_object.h"
#include "bindings/products.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/precision.h"

namespace gpk::bind {

const Array& product_operand(const Arguments& args, int number) {
  PyObject* object = args[number].ptr();
  if (is_array(object)) [[likely]]
    return array_of(object);
  if (scalar_from_python(object, args.op()))
    throw InvalidArgument(cat(args.op(), ": Input operand ", number,
                              " does not have enough dimensions (has 0, requires 1): ",
                              args.name(number), " is ", safe_repr(object)));
  return args.array_like(number);
}

PyObject* multiply_arrays(PyObject* a, PyObject* b) {
  std::optional<Array> result;
  {
    const BrieflyWithoutGil released;
    result = ops::matmul(array_of(a), array_of(b));
  }
  return make_array_object(std::move(*result));
}

namespace {

// None, "relu", "gelu", "gelu_erf", "silu" or "swiglu".
void read_activation(PyObject* object, const char* op, ops::LinearOptions& options) {
  if (object == Py_None) return;
  const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
  if (text != nullptr) {
    for (const auto activation : {ops::Activation::kRelu, ops::Activation::kGelu,
                                  ops::Activation::kGeluErf, ops::Activation::kSilu}) {
      if (std::string_view(text) != name(activation)) continue;
      options.activation = activation;
      return;
    }
    options.swiglu = std::string_view(text) == "swiglu";
    if (options.swiglu) return;
  }
  if (PyErr_Occurred() != nullptr) clear_if(PyExc_UnicodeError);
  throw InvalidArgument(
      PyUnicode_Check(object) ? InvalidArgument::Kind::kValue : InvalidArgument::Kind::kType,
      cat(op, ": activation is ", safe_repr(object),
          ", expected None, 'relu', 'gelu', 'gelu_erf', 'silu' or 'swiglu'"));
}

// x @ w.T of packed weights w.
PyObject* matmul_packed(const Arguments& args, const PackedTranspose& w) {
  const Array& x = product_operand(args, 0);
  if (!args.is_default(4) || !args.is_none(5) || !args.is_none(7))
    throw InvalidArgument(cat(args.op(),
                              ": alpha, dtype and precision are for arrays; x2 is the transpose of "
                              "packed weights"));
  ops::LinearOptions options;
  options.batch_invariant = args.optional_flag(6).value_or(false);
  return run_into(args, 2, [&](const std::optional<Array>& out) {
    options.out = out;
    return ops::linear(x, w.weight, options, "matmul");
  });
}

// use_tf32 and precision, of which a call may say one, to options.
template <class Options>
void read_precision(const Arguments& args, int use_tf32, int precision, Options& options) {
  options.use_tf32 = args.optional_flag(use_tf32);
  if (args.is_none(precision)) return;
  if (options.use_tf32)
    throw InvalidArgument(
        cat(args.op(), ": use_tf32 and precision are both given, expected one of them"));
  const auto chosen = ops::matmul_precision_named(args.text(precision), args.op());
  options.use_tf32 = chosen == ops::MatmulPrecision::kTf32;
  options.tf32x3 = chosen == ops::MatmulPrecision::kTf32x3;
  options.float64_int8 = chosen == ops::MatmulPrecision::kFloat64Int8;
}

// (x1, x2, out, use_tf32, alpha, dtype, batch_invariant, precision)
PyObject* matmul(const Arguments& args) {
  if (!is_array(args[1].ptr())) [[unlikely]]
    if (const PackedTranspose* w = packed_transpose_of(args[1])) return matmul_packed(args, *w);
  const Array& x1 = product_operand(args, 0);
  const Array& x2 = product_operand(args, 1);
  if (args.is_default(4) && args.is_none(5) && args.is_default(6) && args.is_none(7)) {
    const std::optional<bool> use_tf32 = args.optional_flag(3);
    return run_into(args, 2, [&](const std::optional<Array>& out) {
      return ops::matmul(x1, x2, out, use_tf32);
    });
  }
  ops::MatmulOptions options;
  read_precision(args, 3, 7, options);
  options.alpha = args.number(4);
  options.dtype = args.optional_dtype(5);
  options.batch_invariant = args.optional_flag(6).value_or(false);
  return run_into(args, 2, [&](const std::optional<Array>& out) {
    options.out = out;
    return ops::matmul(x1, x2, options);
  });
}

// (x, w, bias, activation, residual, out, use_tf32, batch_invariant, norm, eps, few_rows,
// quantize_input, precision)
PyObject* linear(const Arguments& args) {
  const Array& x = args.array(0);
  const ops::PackedWeight* const packed = is_array(args[1].ptr()) ? nullptr : packed_of(args[1]);
  const Array* const w = packed != nullptr ? nullptr : &args.array(1);
  ops::LinearOptions options;
  options.bias = args.optional_array(2);
  read_activation(args[3].ptr(), "linear", options);
  options.residual = args.optional_array(4);
  read_precision(args, 6, 12, options);
  if (packed != nullptr && !args.is_none(12))
    throw InvalidArgument("linear: precision is given, w is packed; expected None");
  options.batch_invariant = args.optional_flag(7).value_or(false);
  if (const std::optional<Array> norm = args.optional_array(8))
    options.norm = ops::LinearNorm{*norm, args.number(9)};
  options.few_rows = args.flag(10);
  options.quantize_input = args.flag(11);
  return run_into(args, 5, [&](const std::optional<Array>& out) {
    options.out = out;
    return packed != nullptr ? ops::linear(x, *packed, options) : ops::linear(x, *w, options);
  });
}

// (c, a, b, alpha, beta, out, use_tf32, batch_invariant)
PyObject* addmm(const Arguments& args) {
  const Array& a = args.array(1);
  const Array& b = args.array(2);
  ops::MatmulOptions options;
  options.residual = args.array(0);
  options.alpha = args.number(3);
  options.beta = args.number(4);
  options.use_tf32 = args.optional_flag(6);
  options.batch_invariant = args.flag(7);
  return run_into(args, 5, [&](const std::optional<Array>& out) {
    options.out = out;
    return ops::matmul(a, b, options, "addmm");
  });
}

void set_precision(const Arguments& args) {
  ops::set_matmul_precision(ops::matmul_precision_named(args.text(0), "set_matmul_precision"));
}

}  // namespace

void bind_matmul(py::module_& m) {
  define(m, "matmul", matmul);
  define(m, "linear", linear);
  define(m, "addmm", addmm);
  define(m, "set_matmul_precision", set_precision);
  define(m, "get_matmul_precision",
         [](const Arguments&) { return py::str(name(ops::matmul_precision())); });
}

}  // namespace gpk::bind
