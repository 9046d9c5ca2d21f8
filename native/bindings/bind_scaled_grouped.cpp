// Products with scales and of rows grouped by expert, as functions.
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/output.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/matmul/grouped.h"
#include "ops/matmul/scaled.h"

namespace gpk::bind {
namespace {

// A GPUArray or a number.
ops::Scale scale_argument(const py::object& object, const char* argument) {
  if (is_array(object.ptr())) return array_of(object.ptr());
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    clear_if(PyExc_TypeError, PyExc_OverflowError);
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("scaled_matmul: ", argument, " is ", safe_repr(object),
                              ", expected a GPUArray or a number"));
  }
  return value;
}

py::object scaled_matmul(const Array& a, const Array& b, const py::object& scale_a,
                         const py::object& scale_b, const std::optional<Array>& bias,
                         const py::object& dtype, const py::object& out, bool fast_accum) {
  const ops::Scale rows = scale_argument(scale_a, "scale_a");
  const ops::Scale columns = scale_argument(scale_b, "scale_b");
  ops::ScaledOptions options;
  options.bias = bias;
  options.dtype = optional_dtype(dtype, "scaled_matmul");
  options.fast_accum = fast_accum;
  return call_with_out(out, "scaled_matmul", [&](const std::optional<Array>& into) {
    options.out = into;
    return ops::scaled_matmul(a, b, rows, columns, options);
  });
}

py::object matmul_fp8(const Array& a, const Array& b, const py::object& out,
                      const std::string& op) {
  return call_with_out(out, op.c_str(), [&](const std::optional<Array>& into) {
    return ops::matmul_fp8(a, b, into, op.c_str());
  });
}

std::vector<std::int64_t> host_sizes(const py::object& object) {
  std::vector<std::int64_t> sizes;
  if (py::isinstance<py::sequence>(object)) {
    for (const py::handle item : object) {
      const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
      if (!number) break;
      const long long value = PyLong_AsLongLong(number.ptr());
      if (value == -1 && PyErr_Occurred() != nullptr) break;
      sizes.push_back(value);
    }
    if (PyErr_Occurred() == nullptr) return sizes;
    clear_if(PyExc_TypeError, PyExc_OverflowError);
  }
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat("grouped_gemm: group_sizes is ", safe_repr(object),
                            ", expected a GPUArray or a sequence of ints"));
}

py::object grouped_gemm(const Array& x, const Array& w, const py::object& group_sizes,
                        const py::object& expert_ids, const py::object& out) {
  constexpr const char* op = "grouped_gemm";
  if (group_sizes.is_none() == expert_ids.is_none())
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": expected either group_sizes or expert_ids"));
  if (group_sizes.is_none()) {
    if (!is_array(expert_ids.ptr()))
      throw InvalidArgument(
          InvalidArgument::Kind::kType,
          cat(op, ": expert_ids is ", safe_repr(expert_ids), ", expected a GPUArray"));
    const Array ids = array_of(expert_ids.ptr());
    return call_with_out(out, op, [&](const std::optional<Array>& into) {
      return ops::grouped_gemm_by_expert(x, w, ids, into);
    });
  }
  if (is_array(group_sizes.ptr())) {
    const Array sizes = array_of(group_sizes.ptr());
    return call_with_out(out, op, [&](const std::optional<Array>& into) {
      return ops::grouped_gemm_by_sizes(x, w, sizes, into);
    });
  }
  const std::vector<std::int64_t> sizes = host_sizes(group_sizes);
  return call_with_out(out, op, [&](const std::optional<Array>& into) {
    return ops::grouped_gemm(x, w, sizes, into);
  });
}

}  // namespace

void bind_scaled_grouped(py::module_& m) {
  m.def("scaled_matmul", scaled_matmul, py::arg("a"), py::arg("b"), py::arg("scale_a"),
        py::arg("scale_b"), py::arg("bias") = py::none(), py::arg("dtype") = py::none(),
        py::arg("out") = py::none(), py::arg("fast_accum") = false,
        "(scale_a * a) @ (scale_b * b) + bias of FP8 or int8.");
  m.def("matmul_fp8", matmul_fp8, py::arg("a"), py::arg("b"), py::arg("out") = py::none(),
        py::arg("op") = "matmul_fp8", "a @ b of float32, quantized to e4m3 on the way.");
  m.def("grouped_gemm", grouped_gemm, py::arg("x"), py::arg("w"),
        py::arg("group_sizes") = py::none(), py::arg("expert_ids") = py::none(),
        py::arg("out") = py::none(), "Rows of x times the matrix of their expert.");
}

}  // namespace gpk::bind
