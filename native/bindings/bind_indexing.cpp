// take, put, nonzero and related functions.
#include "base/error.h"
#include "base/text.h"
#include "bindings/array_index.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/indexing/take.h"

namespace gpk::bind {
namespace {

using Axis = std::optional<std::int64_t>;

ops::IndexMode mode_from(const std::string& mode, const char* op) {
  if (mode == "raise") return ops::IndexMode::kRaise;
  if (mode == "wrap") return ops::IndexMode::kWrap;
  if (mode == "clip") return ops::IndexMode::kClip;
  throw InvalidArgument(cat(op, ": mode is '", mode, "', expected 'raise', 'wrap' or 'clip'"));
}

// The rows of a (k, n) array as a tuple of views.
py::tuple rows(const Array& array) {
  const auto count = static_cast<std::size_t>(array.shape()[0]);
  py::tuple result(count);
  ops::IndexItem item{ops::IndexItem::Kind::kInteger, 0, 0, 0, nullptr};
  for (; item.start < array.shape()[0]; ++item.start)
    result[static_cast<std::size_t>(item.start)] = py::reinterpret_steal<py::object>(
        make_array_object(ops::select_view(array, {&item, 1}, "getitem")));
  return result;
}

// (x, indices, axis, out, mode)
py::object take(const Arguments& args) {
  const Array& x = args.array_like(0);
  const Array index = index_from_python(args[1], x.device(), "take");
  const Axis axis = args.optional_integer(2);
  const ops::IndexMode mode = mode_from(args.text(4), "take");
  return call_with_out(args[3], "take", [&](const std::optional<Array>& out) {
    return ops::take(x, index, axis, mode, out);
  });
}

// (x, indices, axis)
Array take_along_axis(const Arguments& args) {
  const Array& x = args.array_like(0);
  const Array index = index_from_python(args[1], x.device(), "take_along_axis");
  const Axis axis = args.optional_integer(2);
  const WithoutGil released;
  return ops::take_along_axis(x, index, axis);
}

// (x, indices, values, axis)
void put_along_axis(const Arguments& args) {
  const Array& x = args.array(0);
  const Array index = index_from_python(args[1], x.device(), "put_along_axis");
  const ops::AssignValue value = value_from_python(args[2], x, "put_along_axis");
  const Axis axis = args.optional_integer(3);
  const WithoutGil released;
  ops::put_along_axis(x, index, value, axis);
}

// (x, indices, values, mode)
void put(const Arguments& args) {
  const Array& x = args.array(0);
  const Array index = index_from_python(args[1], x.device(), "put");
  const ops::AssignValue value = value_from_python(args[2], x, "put");
  const ops::IndexMode mode = mode_from(args.text(3), "put");
  const WithoutGil released;
  ops::put(x, index, value, mode);
}

// (condition, x, axis, out)
py::object compress(const Arguments& args) {
  const Array& x = args.array_like(1);
  const Array mask = index_from_python(args[0], x.device(), "compress");
  const Axis axis = args.optional_integer(2);
  return call_with_out(args[3], "compress", [&](const std::optional<Array>& out) {
    return ops::compress(mask, x, axis, out);
  });
}

// (condition, x)
Array extract(const Arguments& args) {
  const Array& x = args.array_like(1);
  const Array mask = index_from_python(args[0], x.device(), "extract");
  const WithoutGil released;
  return ops::extract(mask, x);
}

// (x, mask, values)
void place(const Arguments& args) {
  const Array& x = args.array(0);
  const Array mask = index_from_python(args[1], x.device(), "place");
  ops::AssignValue value = value_from_python(args[2], x, "place");
  if (std::holds_alternative<Scalar>(value))
    value = from_numpy(py::make_tuple(args[2]), x.device());
  const WithoutGil released;
  ops::place(x, mask, std::get<Array>(value));
}

py::object nonzero(const Arguments& args) { return nonzero_tuple(args.array_like(0), "nonzero"); }

Array flatnonzero(const Arguments& args) {
  const Array& x = args.array_like(0);
  const WithoutGil released;
  const Array line = ops::nonzero(ops::reshape(x, Dims{-1}, "flatnonzero"), "flatnonzero");
  return *try_reshape(line, Dims{line.size()});
}

// Of a 0-d array: none.
Array argwhere(const Arguments& args) {
  const Array& x = args.array_like(0);
  const WithoutGil released;
  const bool scalar = x.ndim() == 0;
  const Array line = scalar ? expand_dims(x, Dims{0}, "argwhere") : x;
  const Array found = transpose(ops::nonzero(line, "argwhere"), "argwhere");
  return scalar ? slice_axis(found, 1, 0, 0, 1) : found;
}

// (indices, shape)
py::object unravel_index(const Arguments& args) {
  const Array& indices = args.array_like(0);
  const Dims dims = args.shape(1);
  const Array found = [&] {
    const WithoutGil released;
    return ops::unravel_index(indices, dims);
  }();
  return rows(found);
}

// (multi_index, dims, mode)
Array ravel_multi_index(const Arguments& args) {
  if (PySequence_Check(args[0].ptr()) == 0) args.refuse(0, "a sequence of arrays");
  const py::tuple items = items_from_python(args[0]);
  const Dims dims = args.shape(1);
  const ops::IndexMode mode = mode_from(args.text(2), "ravel_multi_index");
  std::vector<Array> arrays;
  std::optional<Device> device;
  for (const py::handle index : items)
    if (is_array(index.ptr())) device = array_of(index.ptr()).device();
  for (const py::handle index : items)
    arrays.push_back(
        index_from_python(index, device ? *device : default_device(), "ravel_multi_index"));
  const WithoutGil released;
  return ops::ravel_multi_index(arrays, dims, mode);
}

}  // namespace

py::tuple nonzero_tuple(const Array& x, const char* op) {
  const Array found = [&] {
    const WithoutGil released;
    return ops::nonzero(x, op);
  }();
  return rows(found);
}

void bind_indexing(py::module_& m) {
  define(m, "take", take);
  define(m, "take_along_axis", take_along_axis);
  define(m, "put_along_axis", put_along_axis);
  define(m, "put", put);
  define(m, "compress", compress);
  define(m, "extract", extract);
  define(m, "place", place);
  define(m, "nonzero", nonzero);
  define(m, "argwhere", argwhere);
  define(m, "flatnonzero", flatnonzero);
  define(m, "unravel_index", unravel_index);
  define(m, "ravel_multi_index", ravel_multi_index);
}

}  // namespace gpk::bind
