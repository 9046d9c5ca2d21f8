// Products as functions. Those on the path of every layer take their arguments without tuples.
#include <string_view>

#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/fast_call.h"
#include "bindings/output.h"
#include "bindings/products.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/precision.h"

namespace gpk::bind {

const Array& product_operand(PyObject* object, const char* op, int number) {
  if (is_array(object)) return array_of(object);
  const char* argument = number == 0 ? "x1" : "x2";
  if (scalar_from_python(object, op))
    throw InvalidArgument(cat(op, ": Input operand ", number,
                              " does not have enough dimensions (has 0, requires 1): ", argument,
                              " is ", safe_repr(object)));
  throw InvalidArgument(
      InvalidArgument::Kind::kType,
      cat(op, ": ", argument, " is ", safe_repr(object), ", expected a GPUArray"));
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

bool is_given(PyObject* object) { return object != nullptr && object != Py_None; }

[[noreturn]] void bad_argument(const char* op, const char* argument, PyObject* object,
                               const char* expected) {
  throw InvalidArgument(
      InvalidArgument::Kind::kType,
      cat(op, ": ", argument, " is ", safe_repr(object), ", expected ", expected));
}

const Array& array_argument(PyObject* object, const char* op, const char* argument) {
  if (!is_array(object)) bad_argument(op, argument, object, "a GPUArray");
  return array_of(object);
}

std::optional<Array> optional_array(PyObject* object, const char* op, const char* argument) {
  if (!is_given(object)) return std::nullopt;
  return array_argument(object, op, argument);
}

std::optional<bool> optional_flag(PyObject* object, const char* op, const char* argument) {
  if (!is_given(object)) return std::nullopt;
  if (!PyBool_Check(object)) bad_argument(op, argument, object, "True, False or None");
  return object == Py_True;
}

double number_argument(PyObject* object, const char* op, const char* argument) {
  if (object == nullptr) return 1.0;
  const double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    clear_if(PyExc_TypeError, PyExc_OverflowError);
    bad_argument(op, argument, object, "a number");
  }
  return value;
}

// None, "relu", "gelu", "silu" or "swiglu".
void read_activation(PyObject* object, const char* op, ops::LinearOptions& options) {
  if (!is_given(object)) return;
  const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
  if (text != nullptr) {
    for (const auto activation :
         {ops::Activation::kRelu, ops::Activation::kGelu, ops::Activation::kSilu}) {
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
          ", expected None, 'relu', 'gelu', 'silu' or 'swiglu'"));
}

template <class Call>
PyObject* run_into(PyObject* out, const Call& call) {
  std::optional<Array> result;
  {
    const BrieflyWithoutGil released;
    result = call();
  }
  if (is_given(out)) return Py_NewRef(out);
  return make_array_object(std::move(*result));
}

std::optional<Array> out_argument(PyObject* object, const char* op) {
  const Array* given = object == nullptr ? nullptr : output_from_python(object, op);
  return given != nullptr ? std::optional(*given) : std::nullopt;
}

// --- matmul -------------------------------------------------------------------------------------

constexpr const char* kMatmulNames[] = {
    "x1", "x2", "out", "use_tf32", "alpha", "dtype", "batch_invariant"};
constexpr FastSignature kMatmul{"matmul", kMatmulNames, 2, 2, 2};

PyObject* matmul(PyObject*, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    PyObject* slots[std::size(kMatmulNames)];
    bind_arguments(kMatmul, args, num_args, keywords, slots);
    const Array& x1 = product_operand(slots[0], "matmul", 0);
    const Array& x2 = product_operand(slots[1], "matmul", 1);
    ops::MatmulOptions options;
    options.out = out_argument(slots[2], "matmul");
    options.use_tf32 = optional_flag(slots[3], "matmul", "use_tf32");
    if (slots[4] == nullptr && !is_given(slots[5]) && slots[6] == nullptr)
      return run_into(slots[2], [&] { return ops::matmul(x1, x2, options.out, options.use_tf32); });
    options.alpha = number_argument(slots[4], "matmul", "alpha");
    if (is_given(slots[5])) options.dtype = dtype_from_python(slots[5], "matmul");
    options.batch_invariant = optional_flag(slots[6], "matmul", "batch_invariant").value_or(false);
    return run_into(slots[2], [&] { return ops::matmul(x1, x2, options); });
  });
}

PyMethodDef matmul_definition{
    "matmul", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(matmul)),
    METH_FASTCALL | METH_KEYWORDS,
    "matmul(x1, x2, /, *, out=None, use_tf32=None, alpha=1.0, dtype=None, "
    "batch_invariant=False)\n--\n\n"
    "alpha times the matrix call, broadcast over leading dimensions, as NumPy's matmul.\n\n"
    "A 1-D operand is a row (x1) or a column (x2), whose dimension the result lacks. Integers\n"
    "wrap, bool is or over and; float16 and bfloat16 accumulate in float32. dtype is computed in,\n"
    "as in NumPy: float32 for float16 and bfloat16, and int32 for int8, keep the sums as they\n"
    "are. float32 stays float32 unless use_tf32 says otherwise (other dtypes: RuntimeError) or,\n"
    "where it is None, set_matmul_precision() does. With batch_invariant a row's result does not\n"
    "depend on the number of rows."};

// --- linear -------------------------------------------------------------------------------------

constexpr const char* kLinearNames[] = {"x",        "w",   "bias",     "activation",
                                        "residual", "out", "use_tf32", "batch_invariant"};
constexpr FastSignature kLinear{"linear", kLinearNames, 5, 0, 2};

PyObject* linear(PyObject*, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    PyObject* slots[std::size(kLinearNames)];
    bind_arguments(kLinear, args, num_args, keywords, slots);
    const Array& x = array_argument(slots[0], "linear", "x");
    const Array& w = array_argument(slots[1], "linear", "w");
    ops::LinearOptions options;
    options.bias = optional_array(slots[2], "linear", "bias");
    read_activation(slots[3], "linear", options);
    options.residual = optional_array(slots[4], "linear", "residual");
    options.out = out_argument(slots[5], "linear");
    options.use_tf32 = optional_flag(slots[6], "linear", "use_tf32");
    options.batch_invariant = optional_flag(slots[7], "linear", "batch_invariant").value_or(false);
    return run_into(slots[5], [&] { return ops::linear(x, w, options); });
  });
}

PyMethodDef linear_definition{
    "linear", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(linear)),
    METH_FASTCALL | METH_KEYWORDS,
    "linear(x, w, bias=None, activation=None, residual=None, *, out=None, use_tf32=None, "
    "batch_invariant=False)\n--\n\n"
    "activation(x @ w.T + bias) + residual: x [..., k] and w [n, k] give [..., n].\n\n"
    "activation is None, 'relu', 'gelu' (the tanh form), 'silu' or 'swiglu': then w [2 n, k] (and\n"
    "bias [2 n]) holds the gate's rows, then those of up, and the result is silu(gate) * up. All\n"
    "arrays have one floating-point dtype; bias has n elements, the residual broadcasts to the\n"
    "result and may be out. Rounded once, at the end."};

// --- what is not on the path of every call ------------------------------------------------------

py::object addmm(const Array& c, const Array& a, const Array& b, double alpha, double beta,
                 py::handle out, std::optional<bool> use_tf32, bool batch_invariant) {
  return call_with_out(out, "addmm", [&](const std::optional<Array>& into) {
    ops::MatmulOptions options;
    options.out = into;
    options.alpha = alpha;
    options.beta = beta;
    options.residual = c;
    options.use_tf32 = use_tf32;
    options.batch_invariant = batch_invariant;
    return ops::matmul(a, b, options, "addmm");
  });
}

void set_precision(const std::string& precision) {
  if (precision != "float32" && precision != "tf32")
    throw InvalidArgument(
        cat("set_matmul_precision: precision is '", precision, "', expected 'float32' or 'tf32'"));
  ops::set_matmul_precision(precision == "tf32" ? ops::MatmulPrecision::kTf32
                                                : ops::MatmulPrecision::kFloat32);
}

}  // namespace

void bind_matmul(py::module_& m) {
  add_function(m, &matmul_definition, py::none());
  add_function(m, &linear_definition, py::none());
  m.def("addmm", addmm, py::arg("c"), py::arg("a"), py::arg("b"), py::arg("alpha") = 1.0,
        py::arg("beta") = 1.0, py::arg("out") = py::none(), py::arg("use_tf32") = py::none(),
        py::arg("batch_invariant") = false, "alpha * (a @ b) + beta * c.");
  m.def("set_matmul_precision", set_precision, py::arg("precision"),
        "'float32' or 'tf32': what float32 products are computed in unless a call says.");
  m.def(
      "get_matmul_precision",
      [] { return ops::matmul_precision() == ops::MatmulPrecision::kTf32 ? "tf32" : "float32"; },
      "What float32 products are computed in unless a call says.");
}

}  // namespace gpk::bind
