// Contractions as functions.
#include <pybind11/complex.h>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "bindings/operand.h"
#include "bindings/products.h"
#include "core/promote.h"
#include "ops/elementwise/fill.h"
#include "ops/matmul/contraction.h"
#include "ops/matmul/matmul.h"

namespace gpk::bind {
namespace {

// (x1, x2, axis, out)
PyObject* vecdot(const Arguments& args) {
  const Array& x1 = product_operand(args, 0);
  const Array& x2 = product_operand(args, 1);
  const std::int64_t axis = args.integer(2);
  return run_into(args, 3,
                  [&](const std::optional<Array>& out) { return ops::vecdot(x1, x2, axis, out); });
}

// (operands, labels, output, out): the Python layer has parsed the subscripts.
PyObject* einsum(const Arguments& args) {
  std::vector<Array> operands;
  for (const py::handle object : items_from_python(args[0])) {
    if (!is_array(object.ptr()))
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat("einsum: operand ", operands.size(), " is ", safe_repr(object),
                                ", expected a GPUArray"));
    operands.push_back(array_of(object.ptr()));
  }
  const auto labels = args[1].cast<std::vector<ops::Labels>>();
  const auto output = args[2].cast<ops::Labels>();
  return run_into(args, 3, [&](const std::optional<Array>& out) {
    return ops::einsum(operands, labels, output, out);
  });
}

// (x1, x2, axes): a count, or one axis or several for each operand.
Array tensordot(const Arguments& args) {
  const Array& x1 = product_operand(args, 0);
  const Array& x2 = product_operand(args, 1);
  if (PyIndex_Check(args[2].ptr()) != 0) {
    const std::int64_t count = args.integer(2);
    const WithoutGil released;
    return ops::tensordot(x1, x2, count);
  }
  if (!py::isinstance<py::sequence>(args[2]) || py::len(args[2]) != 2)
    args.refuse(2, "an int or two sequences of ints");
  const auto pair = py::reinterpret_borrow<py::sequence>(args[2]);
  const Dims axes1 = shape_from_python(py::object(pair[0]), "tensordot");
  const Dims axes2 = shape_from_python(py::object(pair[1]), "tensordot");
  const WithoutGil released;
  return ops::tensordot(x1, x2, axes1, axes2);
}

// An array, a list, or a number: a 0-d array of its own dtype, or that it takes beside `other`.
Array pair_operand(const Arguments& args, int number, PyObject* other) {
  PyObject* given = args[number].ptr();
  const auto found =
      is_array(given) || is_list(given) ? std::nullopt : operand_from_python(given, args.op());
  if (!found) return args.array_like(number);
  const bool beside = is_array(other);
  const DType dtype = found->dtype ? *found->dtype
                      : beside ? promote_scalar(array_of(other).dtype(), found->scalar, args.op())
                               : default_dtype(found->scalar);
  const Device device = beside ? array_of(other).device() : default_device();
  return ops::full({}, found->scalar, dtype, device, args.op());
}

using PairFunction = Array (*)(const Array&, const Array&);

void define_pair(py::module_& m, const char* op, PairFunction function) {
  define(m, op, [function](const Arguments& args) {
    const Array a = pair_operand(args, 0, args[1].ptr());
    const Array b = pair_operand(args, 1, args[0].ptr());
    const WithoutGil released;
    return function(a, b);
  });
}

// (x, offset, axis1, axis2, dtype)
Array trace(const Arguments& args) {
  const Array& x = args.array_like(0);
  const std::int64_t offset = args.integer(1);
  const std::int64_t axis1 = args.integer(2);
  const std::int64_t axis2 = args.integer(3);
  const std::optional<DType> dtype = args.optional_dtype(4);
  const WithoutGil released;
  return ops::trace(x, offset, axis1, axis2, dtype);
}

}  // namespace

void bind_contraction(py::module_& m) {
  define(m, "vecdot", vecdot);
  define(m, "einsum", einsum);
  define(m, "tensordot", tensordot);
  define_pair(m, "dot", ops::dot);
  define_pair(m, "inner", ops::inner);
  define_pair(m, "outer", ops::outer);
  define_pair(m, "vdot", ops::vdot);
  define_pair(m, "kron", ops::kron);
  define(m, "trace", trace);
  define(m, "matrix_transpose",
         [](const Arguments& args) { return ops::matrix_transpose(args.array_like(0)); });
}

}  // namespace gpk::bind
