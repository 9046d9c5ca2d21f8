// Scaled and grouped GEMM as functions.
#include "base/error.h"
#include "bindings/bind.h"
#include "bindings/op_function.h"
#include "bindings/packed_object.h"
#include "ops/matmul/grouped.h"
#include "ops/matmul/packed_groups.h"
#include "ops/matmul/scaled.h"

namespace gpk::bind {
namespace {

// A GPUArray or a number.
ops::Scale scale_argument(const Arguments& args, int i) {
  if (is_array(args[i].ptr())) return args.array(i);
  const double value = PyFloat_AsDouble(args[i].ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    clear_if(PyExc_TypeError, PyExc_OverflowError);
    args.refuse(i, "a GPUArray or a number");
  }
  return value;
}

// (a, b, scale_a, scale_b, bias, dtype, out, fast_accum)
PyObject* scaled_matmul(const Arguments& args) {
  const Array& a = args.array(0);
  const Array& b = args.array(1);
  const ops::Scale rows = scale_argument(args, 2);
  const ops::Scale columns = scale_argument(args, 3);
  ops::ScaledOptions options;
  options.bias = args.optional_array(4);
  options.dtype = args.optional_dtype(5);
  options.fast_accum = args.flag(7);
  return run_into(args, 6, [&](const std::optional<Array>& out) {
    options.out = out;
    return ops::scaled_matmul(a, b, rows, columns, options);
  });
}

// (a, b, out)
PyObject* matmul_fp8(const Arguments& args) {
  const Array& a = args.array(0);
  const Array& b = args.array(1);
  return run_into(args, 2, [&](const std::optional<Array>& out) {
    return ops::matmul_fp8(a, b, out, "matmul_fp8");
  });
}

std::vector<std::int64_t> host_sizes(py::handle object) {
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
  bad_argument("grouped_gemm", "group_sizes", object, "a GPUArray or a sequence of ints");
}

// (x, w, group_sizes, expert_ids, out)
PyObject* grouped_gemm(const Arguments& args) {
  const Array& x = args.array(0);
  const ops::PackedWeight* const packed = packed_of(args[1]);
  if (packed == nullptr && !is_array(args[1].ptr())) args.refuse(1, "a GPUArray or a PackedWeight");
  const Array* const w = packed != nullptr ? nullptr : &args.array(1);
  if (args.is_none(2) == args.is_none(3))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          "grouped_gemm: expected either group_sizes or expert_ids");
  ops::gemm::RowGroups groups{ops::gemm::GroupKind::kSizes, {}, std::nullopt};
  std::vector<std::int64_t> sizes;
  if (args.is_none(2)) {
    groups.kind = ops::gemm::GroupKind::kExpertIds;
    groups.device = args.array(3);
  } else if (is_array(args[2].ptr())) {
    groups.device = args.array(2);
  } else {
    groups.host = sizes = host_sizes(args[2]);
  }
  return run_into(args, 4, [&](const std::optional<Array>& out) {
    return packed != nullptr ? ops::grouped_gemm(x, *packed, groups, out)
                             : ops::grouped_gemm(x, *w, groups, out);
  });
}

}  // namespace

void bind_scaled_grouped(py::module_& m) {
  define(m, "scaled_matmul", scaled_matmul);
  define(m, "matmul_fp8", matmul_fp8);
  define(m, "grouped_gemm", grouped_gemm);
}

}  // namespace gpk::bind
