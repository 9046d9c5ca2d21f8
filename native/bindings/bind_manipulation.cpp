// Joining, repeating, rolling and padding.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "ops/manipulation/join.h"
#include "ops/manipulation/pad.h"
#include "ops/manipulation/roll.h"
#include "ops/manipulation/tile.h"

namespace gpk::bind {
namespace {

// GPUArrays, and lists of numbers on the device of the first of those.
std::vector<Array> arrays_from_python(py::handle object, const char* op) {
  if (is_array(object.ptr()) || !py::isinstance<py::iterable>(object))
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(op, ": arrays is ", safe_repr(object),
                                                            ", expected a sequence of arrays"));
  const py::tuple items = items_from_python(object);
  const Array* beside = nullptr;
  for (const py::handle item : items)
    if (beside == nullptr && is_array(item.ptr())) beside = &array_of(item.ptr());
  std::vector<Array> arrays;
  arrays.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.ptr(), i);
    const std::string argument = is_array(item) ? std::string() : cat("arrays[", i, "]");
    if (is_array(item))
      arrays.push_back(array_of(item));
    else if (is_list(item))
      arrays.push_back(array_from_list(item, beside, op, argument.c_str()));
    else
      bad_argument(op, argument.c_str(), item, "a GPUArray");
  }
  return arrays;
}

// (arrays, axis, out, dtype)
PyObject* concat(const Arguments& args) {
  const std::vector<Array> arrays = arrays_from_python(args[0], args.op());
  const auto axis = args.optional_integer(1);
  const auto dtype = args.optional_dtype(3);
  return run_into(args, 2, [&](const std::optional<Array>& out) {
    return ops::concat(arrays, axis, {dtype, out}, args.op());
  });
}

// (op, arrays, axis, dtype)
Array concat_as(const Arguments& args) {
  const std::string op = args.text(0);
  const std::vector<Array> arrays = arrays_from_python(args[1], op.c_str());
  const auto axis = optional_int(args[2], op.c_str(), "axis");
  const auto dtype =
      args.is_none(3) ? std::nullopt : std::optional(dtype_from_python(args[3], op.c_str()));
  const WithoutGil released;
  return ops::concat(arrays, axis, {dtype, std::nullopt}, op.c_str());
}

// (arrays, axis, out, dtype)
PyObject* stack(const Arguments& args) {
  const std::vector<Array> arrays = arrays_from_python(args[0], "stack");
  const std::int64_t axis = args.integer(1);
  const auto dtype = args.optional_dtype(3);
  return run_into(args, 2, [&](const std::optional<Array>& out) {
    return ops::stack(arrays, axis, {dtype, out}, "stack");
  });
}

// (x, repeats, axis)
Array repeat(const Arguments& args) {
  const Array& x = args.array_like(0);
  const std::int64_t count = args.integer(1);
  const auto axis = args.optional_integer(2);
  const WithoutGil released;
  return ops::repeat(x, count, axis, "repeat");
}

// (x, reps)
Array tile(const Arguments& args) {
  const Array& x = args.array_like(0);
  const Dims counts = args.integers(1);
  const WithoutGil released;
  return ops::tile(x, counts);
}

// (x, shift, axis)
Array roll(const Arguments& args) {
  const Array& x = args.array_like(0);
  const Dims shift = args.integers(1);
  const auto axes = args.optional_integers(2);
  const WithoutGil released;
  return ops::roll(x, shift, axes);
}

// (x, pad_width, mode, constant_values): pairs (before, after), one per axis, as expanded by the
// Python layer.
Array pad(const Arguments& args) {
  const Array& x = args.array_like(0);
  const auto widths = args[1].cast<ops::PadWidths>();
  const std::string mode = args.text(2);
  const auto values = args[3].cast<std::vector<std::pair<py::object, py::object>>>();
  const auto which = ops::pad_mode_from_name(mode);
  if (!which)
    throw InvalidArgument(cat("pad: mode is '", mode,
                              "', expected 'constant', 'edge', 'reflect', 'symmetric', 'wrap', "
                              "'empty', 'linear_ramp', 'maximum', 'mean', 'median' or 'minimum'"));
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
  define(m, "concat", concat);
  define(m, "concatenate", concat);
  define(m, "concat_as", concat_as);
  define(m, "stack", stack);
  define(m, "repeat", repeat);
  define(m, "tile", tile);
  define(m, "roll", roll);
  define(m, "pad", pad);
}

}  // namespace gpk::bind
