// Contractions as functions.
#include <pybind11/complex.h>

#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/output.h"
#include "bindings/products.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/matmul/contraction.h"
#include "ops/matmul/matmul.h"

namespace gpk::bind {
namespace {

template <class Call>
Array result_of(const Call& call) {
  const WithoutGil released;
  return call();
}

py::object vecdot(py::handle x1, py::handle x2, std::int64_t axis, py::handle out) {
  const Array a = product_operand(x1.ptr(), "vecdot", 0);
  const Array b = product_operand(x2.ptr(), "vecdot", 1);
  return call_with_out(out, "vecdot", [&](const std::optional<Array>& into) {
    return ops::vecdot(a, b, axis, into);
  });
}

py::object einsum(const std::vector<py::object>& objects, const std::vector<ops::Labels>& labels,
                  const ops::Labels& to, py::handle out) {
  std::vector<Array> operands;
  for (const py::object& object : objects) {
    if (!is_array(object.ptr()))
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat("einsum: operand ", operands.size(), " is ", safe_repr(object),
                                ", expected a GPUArray"));
    operands.push_back(array_of(object.ptr()));
  }
  return call_with_out(out, "einsum", [&](const std::optional<Array>& into) {
    return ops::einsum(operands, labels, to, into);
  });
}

// axes: a count, or one axis or several for each operand.
Array tensordot(py::handle x1, py::handle x2, py::handle axes) {
  const Array a = product_operand(x1.ptr(), "tensordot", 0);
  const Array b = product_operand(x2.ptr(), "tensordot", 1);
  if (PyIndex_Check(axes.ptr()) != 0) {
    const auto count = axes.cast<std::int64_t>();
    return result_of([&] { return ops::tensordot(a, b, count); });
  }
  if (!py::isinstance<py::sequence>(axes) || py::len(axes) != 2)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat("tensordot: axes is ", safe_repr(axes), ", expected an int or two sequences of ints"));
  const auto pair = py::reinterpret_borrow<py::sequence>(axes);
  const Dims axes1 = shape_from_python(py::object(pair[0]), "tensordot");
  const Dims axes2 = shape_from_python(py::object(pair[1]), "tensordot");
  return result_of([&] { return ops::tensordot(a, b, axes1, axes2); });
}

using PairFunction = Array (*)(const Array&, const Array&);

void def_pair(py::module_& m, const char* op, PairFunction function, const char* doc) {
  m.def(
      op,
      [op, function](py::handle x1, py::handle x2) {
        const Array a = product_operand(x1.ptr(), op, 0);
        const Array b = product_operand(x2.ptr(), op, 1);
        return result_of([&] { return function(a, b); });
      },
      py::arg("x1"), py::arg("x2"), doc);
}

Array trace(const Array& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2,
            py::handle dtype) {
  const auto wanted = optional_dtype(dtype, "trace");
  return result_of([&] { return ops::trace(x, offset, axis1, axis2, wanted); });
}

}  // namespace

void bind_contraction(py::module_& m) {
  m.def("vecdot", vecdot, py::arg("x1"), py::arg("x2"), py::arg("axis") = -1,
        py::arg("out") = py::none(), "Sum over an axis of conj(x1) * x2.");
  m.def("einsum", einsum, py::arg("operands"), py::arg("labels"), py::arg("output"),
        py::arg("out") = py::none(),
        "Sum of products; each operand's axes and the result's as lists of labels.");
  m.def("tensordot", tensordot, py::arg("x1"), py::arg("x2"), py::arg("axes"),
        "Sum over axes of x1 together with axes of x2.");
  def_pair(m, "dot", ops::dot, "NumPy's dot.");
  def_pair(m, "inner", ops::inner, "Sum over the last axes of both.");
  def_pair(m, "outer", ops::outer, "All products of two flattened arrays.");
  def_pair(m, "vdot", ops::vdot, "Sum of conj(x1) * x2 over all elements.");
  def_pair(m, "kron", ops::kron, "Kronecker call.");
  m.def("trace", trace, py::arg("x"), py::arg("offset") = 0, py::arg("axis1") = 0,
        py::arg("axis2") = 1, py::arg("dtype") = py::none(), "Sum over a diagonal.");
  m.def("matrix_transpose", &ops::matrix_transpose, py::arg("x"),
        "A view with the last two axes swapped.");
}

}  // namespace gpk::bind
