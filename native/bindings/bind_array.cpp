// Creation of arrays.
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/elementwise/fill.h"

namespace gpk::bind {
namespace {

Array make_full(py::handle shape, const Scalar& value, py::handle dtype, py::handle device,
                const char* op) {
  const Dims dims = shape_from_python(shape, op);
  const DType type = dtype_from_python(dtype, op);
  const Device target = device_from_python(device, op);
  const WithoutGil released;
  return ops::full(dims, value, type, target, op);
}

Array make_full_of(py::handle shape, py::handle value, py::handle dtype, py::handle device) {
  const auto scalar = scalar_from_python(value, "full");
  if (!scalar)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat("full: fill_value is ", std::string(py::repr(value)), ", expected a number"));
  return make_full(shape, *scalar, dtype, device, "full");
}

}  // namespace

void bind_array(py::module_& m) {
  const auto dtype = py::arg("dtype") = "float32";
  const auto device = py::arg("device") = py::none();
  m.def(
      "zeros",
      [](py::handle shape, py::handle type, py::handle where) {
        return make_full(shape, Scalar(std::int64_t{0}), type, where, "zeros");
      },
      py::arg("shape"), dtype, py::kw_only(), device, "A new array of zeros.");
  m.def(
      "ones",
      [](py::handle shape, py::handle type, py::handle where) {
        return make_full(shape, Scalar(true), type, where, "ones");
      },
      py::arg("shape"), dtype, py::kw_only(), device, "A new array of ones.");
  m.def("full", make_full_of, py::arg("shape"), py::arg("fill_value"), dtype, py::kw_only(), device,
        "A new array with every element fill_value.");
  m.def(
      "from_numpy",
      [](py::handle array, py::handle where) {
        return from_numpy(array, device_from_python(where, "from_numpy"));
      },
      py::arg("array"), py::kw_only(), device,
      "A new array with a copy of a NumPy array's contents (anything numpy.asarray takes).");
}

}  // namespace gpk::bind
