// Creation of arrays.
#include <pybind11/complex.h>

#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "core/promote.h"
#include "ops/creation/eye.h"
#include "ops/creation/ramp.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"

namespace gpk::bind {
namespace {

DType dtype_or(py::handle dtype, DType otherwise, const char* op) {
  return dtype.is_none() ? otherwise : dtype_from_python(dtype, op);
}

Array make_full(py::handle shape, const Scalar& value, py::handle dtype, py::handle device,
                const char* op) {
  const Dims dims = shape_from_python(shape, op);
  const DType type = dtype_or(dtype, DType::kFloat32, op);
  const Device target = device_from_python(device, op);
  const WithoutGil released;
  return ops::full(dims, value, type, target, op);
}

Scalar number(py::handle value, const char* op, const char* argument) {
  if (const auto scalar = scalar_from_python(value, op)) return *scalar;
  bad_argument(op, argument, value, "a number");
}

py::object fill_values(py::handle list, py::handle device) {
  const py::object asarray = py::module_::import("pygpukit.ops.conversion").attr("asarray");
  try {
    return asarray(list, py::arg("device") = device);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
  }
  bad_argument("full", "fill_value", list, "a number, a GPUArray or a list of numbers");
}

Array make_full_of(py::handle shape, py::handle value, py::handle dtype, py::handle device) {
  if (is_list(value.ptr()) || is_array(value.ptr())) {  // an array is not transferred
    const Dims dims = shape_from_python(shape, "full");
    const Device given = device_from_python(device, "full");
    const py::object listed = is_array(value.ptr()) ? py::none() : fill_values(value, device);
    const Array& source = array_of(listed.is_none() ? value.ptr() : listed.ptr());
    const DType type = dtype_or(dtype, source.dtype(), "full");
    const Device target = device.is_none() ? source.device() : given;
    const WithoutGil released;
    Array result = Array::empty(dims, type, target, "full");
    ops::copy_into(result, source, "full");
    return result;
  }
  const Scalar scalar = number(value, "full", "fill_value");
  if (!dtype.is_none()) return make_full(shape, scalar, dtype, device, "full");
  const auto natural =
      has_attribute(value, "dtype")
          ? py::object(value.attr("dtype"))
          : py::reinterpret_borrow<py::object>(dtype_object(default_dtype(scalar)));
  return make_full(shape, scalar, natural, device, "full");
}

// (shape, dtype, device)
void define_filled(py::module_& m, const char* op, const Scalar& value) {
  define(m, op, [op, value](const Arguments& args) {
    return make_full(args[0], value, args[1], args[2], op);
  });
}

// (count, start, step, dtype, device)
Array arange(const Arguments& args) {
  const std::int64_t n = int_from_python(args[0], "arange", "the number of elements");
  const Scalar from = number(args[1], "arange", "start");
  const Scalar by = number(args[2], "arange", "step");
  const DType dtype = args.dtype(3);
  const Device device = args.device(4);
  const WithoutGil released;
  return ops::arange(n, from, by, dtype, device);
}

// (start, stop, num, endpoint, dtype, device)
Array linspace(const Arguments& args) {
  const auto start = args[0].cast<std::complex<double>>();
  const auto stop = args[1].cast<std::complex<double>>();
  const std::int64_t n = args.integer(2);
  const bool endpoint = args.flag(3);
  const DType dtype = args.dtype(4);
  const Device device = args.device(5);
  const WithoutGil released;
  return ops::linspace(start, stop, n, endpoint, dtype, device);
}

// (N, M, k, dtype, device)
Array eye(const Arguments& args) {
  const std::int64_t num_rows = args.integer(0);
  const std::int64_t num_cols = args.optional_integer(1).value_or(num_rows);
  const std::int64_t diagonal = args.integer(2);
  const DType dtype = dtype_or(args[3], DType::kFloat32, "eye");
  const Device device = args.device(4);
  const WithoutGil released;
  return ops::eye(num_rows, num_cols, diagonal, dtype, device);
}

// (x, k)
template <class Function>
void define_diagonal(py::module_& m, const char* op, Function function) {
  define(m, op, [function](const Arguments& args) {
    const Array& x = args.array_like(0);
    const std::int64_t k = args.integer(1);
    const WithoutGil released;
    return function(x, k);
  });
}

// Programs that reuse memory call this in inner loops.
Array empty(const Arguments& args) {
  Dims shape = args.shape(0);
  const DType dtype = dtype_or(args[1], DType::kFloat32, "empty");
  const Device device = args.device(2);
  const BrieflyWithoutGil released;
  return Array::empty(std::move(shape), dtype, device, "empty");
}

}  // namespace

void bind_array(py::module_& m) {
  define(m, "empty", empty);
  define_filled(m, "zeros", Scalar(std::int64_t{0}));
  define_filled(m, "ones", Scalar(true));
  define(m, "full",
         [](const Arguments& args) { return make_full_of(args[0], args[1], args[2], args[3]); });
  define(m, "from_numpy",
         [](const Arguments& args) { return from_numpy(args[0], args.device(1)); });
  define(m, "arange", arange);
  define(m, "linspace", linspace);
  define(m, "eye", eye);
  define_diagonal(m, "tril", ops::tril);
  define_diagonal(m, "triu", ops::triu);
  define_diagonal(m, "diagflat",
                  [](const Array& x, std::int64_t k) { return ops::diagflat(x, k, "diagflat"); });
}

}  // namespace gpk::bind
