// Joining, repeating, rolling and padding.
#include <algorithm>

#include "bindings/array_object.h"
#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/output.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/manipulation/join.h"
#include "ops/manipulation/pad.h"
#include "ops/manipulation/roll.h"
#include "ops/manipulation/tile.h"

namespace gpk::bind {
namespace {

std::vector<Array> arrays_from_python(py::handle object, const char* op) {
  if (is_array(object.ptr()) || !py::isinstance<py::iterable>(object))
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(op, ": arrays is ", safe_repr(object),
                                                            ", expected a sequence of arrays"));
  const py::tuple items = items_from_python(object);
  std::vector<Array> arrays;
  arrays.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.ptr(), i);
    if (!is_array(item))
      throw InvalidArgument(
          InvalidArgument::Kind::kType,
          cat(op, ": arrays[", i, "] is ", safe_repr(item), ", expected a GPUArray"));
    arrays.push_back(array_of(item));
  }
  return arrays;
}

py::object concat_arrays(py::handle arrays, py::handle axis, py::handle dtype, py::handle out,
                         const std::string& op) {
  const std::vector<Array> items = arrays_from_python(arrays, op.c_str());
  const auto along = optional_int(axis, op.c_str(), "axis");
  const auto wanted = optional_dtype(dtype, op.c_str());
  return call_with_out(out, op.c_str(), [&](const std::optional<Array>& into) {
    return ops::concat(items, along, {wanted, into}, op.c_str());
  });
}

py::object stack_arrays(py::handle arrays, py::handle axis, py::handle dtype, py::handle out) {
  const std::vector<Array> items = arrays_from_python(arrays, "stack");
  const std::int64_t along = int_from_python(axis, "stack", "axis");
  const auto wanted = optional_dtype(dtype, "stack");
  return call_with_out(out, "stack", [&](const std::optional<Array>& into) {
    return ops::stack(items, along, {wanted, into}, "stack");
  });
}

Array repeat_elements(const Array& x, py::handle repeats, py::handle axis) {
  const std::int64_t count = int_from_python(repeats, "repeat", "repeats");
  const auto along = optional_int(axis, "repeat", "axis");
  const WithoutGil released;
  return ops::repeat(x, count, along, "repeat");
}

Array tile_array(const Array& x, py::handle repetitions) {
  const Dims counts = ints_from_python(repetitions, "tile", "repetitions");
  const WithoutGil released;
  return ops::tile(x, counts);
}

Array roll_array(const Array& x, py::handle shift, py::handle axis) {
  const Dims by = ints_from_python(shift, "roll", "shift");
  const auto axes = optional_ints(axis, "roll", "axis");
  const WithoutGil released;
  return ops::roll(x, by, axes);
}

// Lists of (before, after), one per axis: the Python layer has spelled them out.
Array pad_array(const Array& x, const ops::PadWidths& widths, const std::string& mode,
                const std::vector<std::pair<py::object, py::object>>& values) {
  const auto which = ops::pad_mode_from_name(mode);
  if (!which)
    throw InvalidArgument(cat("pad: mode is '", mode,
                              "', expected 'constant', 'edge', 'reflect', 'symmetric', 'wrap' or "
                              "'empty'"));
  const auto number = [](py::handle value) {
    const auto scalar = scalar_from_python(value, "pad");
    if (!scalar)
      throw InvalidArgument(
          InvalidArgument::Kind::kType,
          cat("pad: constant_values has ", safe_repr(value), ", expected a number"));
    return *scalar;
  };
  ops::PadValues numbers;
  numbers.reserve(values.size());
  for (const auto& [before, after] : values) numbers.emplace_back(number(before), number(after));
  const auto rank = static_cast<std::size_t>(x.ndim());
  if (widths.size() != rank || (*which == ops::PadMode::kConstant && numbers.size() != rank))
    throw InvalidArgument(
        cat("pad: pad_width is for ", widths.size(), " axes, the array has ", x.ndim()));
  const WithoutGil released;
  return ops::pad(x, widths, *which, numbers);
}

}  // namespace

void bind_manipulation(py::module_& m) {
  const auto x = py::arg("x");
  const auto arrays = py::arg("arrays");
  const auto dtype = py::arg("dtype") = py::none();
  const auto out = py::arg("out") = py::none();
  m.def("concat", concat_arrays, arrays, py::arg("axis") = 0, dtype, out, py::arg("op") = "concat",
        "Arrays one after the other along an axis; None: flattened.");
  m.def("stack", stack_arrays, arrays, py::arg("axis") = 0, dtype, out,
        "Arrays of one shape along a new axis.");
  m.def("repeat", repeat_elements, x, py::arg("repeats"), py::arg("axis") = py::none(),
        "Every element that many times; axis None: of the flattened array.");
  m.def("tile", tile_array, x, py::arg("repetitions"), "The array repeated along its axes.");
  m.def("roll", roll_array, x, py::arg("shift"), py::arg("axis") = py::none(),
        "Elements shifted along axes, those that leave come in at the other end.");
  m.def("pad", pad_array, x, py::arg("pad_width"), py::arg("mode"), py::arg("constant_values"),
        "The array with a border.");
}

}  // namespace gpk::bind
