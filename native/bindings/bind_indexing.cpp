// take, put, nonzero and their relatives as functions.
#include "bindings/array_index.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/output.h"
#include "core/error.h"
#include "core/text.h"
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

py::object take(const Array& x, py::handle indices, Axis axis, const std::string& mode,
                py::handle out) {
  const ops::IndexMode how = mode_from(mode, "take");
  const Array index = index_from_python(indices, x.device(), "take");
  return call_with_out(out, "take", [&](const std::optional<Array>& into) {
    return ops::take(x, index, axis, how, into);
  });
}

Array take_along_axis(const Array& x, py::handle indices, Axis axis) {
  const Array index = index_from_python(indices, x.device(), "take_along_axis");
  const WithoutGil released;
  return ops::take_along_axis(x, index, axis);
}

void put_along_axis(const Array& x, py::handle indices, py::handle values, Axis axis) {
  const Array index = index_from_python(indices, x.device(), "put_along_axis");
  const ops::AssignValue value = value_from_python(values, x.device(), "put_along_axis");
  const WithoutGil released;
  ops::put_along_axis(x, index, value, axis);
}

void put(const Array& x, py::handle indices, py::handle values, const std::string& mode) {
  const ops::IndexMode how = mode_from(mode, "put");
  const Array index = index_from_python(indices, x.device(), "put");
  const ops::AssignValue value = value_from_python(values, x.device(), "put");
  const WithoutGil released;
  ops::put(x, index, value, how);
}

py::object compress(py::handle condition, const Array& x, Axis axis, py::handle out) {
  const Array mask = index_from_python(condition, x.device(), "compress");
  return call_with_out(out, "compress", [&](const std::optional<Array>& into) {
    return ops::compress(mask, x, axis, into);
  });
}

Array extract(py::handle condition, const Array& x) {
  const Array mask = index_from_python(condition, x.device(), "extract");
  const WithoutGil released;
  return ops::extract(mask, x);
}

void place(const Array& x, py::handle condition, py::handle values) {
  const Array mask = index_from_python(condition, x.device(), "place");
  ops::AssignValue value = value_from_python(values, x.device(), "place");
  if (const auto* scalar = std::get_if<Scalar>(&value))
    value = from_numpy(py::make_tuple(std::visit(
                           [](const auto& v) -> py::object { return py::cast(v); }, *scalar)),
                       x.device());
  const WithoutGil released;
  ops::place(x, mask, std::get<Array>(value));
}

Array nonzero_of(const Array& x, const char* op) {
  const WithoutGil released;
  return ops::nonzero(x, op);
}

Array flatnonzero(const Array& x) {
  const WithoutGil released;
  const Array line = ops::nonzero(ops::reshape(x, Dims{-1}, "flatnonzero"), "flatnonzero");
  return *try_reshape(line, Dims{line.size()});
}

// Coordinates of nonzero elements, one row each. Of a 0-d array: none.
Array argwhere(const Array& x) {
  const WithoutGil released;
  const bool scalar = x.ndim() == 0;
  const Array line = scalar ? expand_dims(x, Dims{0}, "argwhere") : x;
  const Array found = transpose(ops::nonzero(line, "argwhere"), "argwhere");
  return scalar ? slice_axis(found, 1, 0, 0, 1) : found;
}

py::tuple unravel_index(const Array& indices, py::handle shape) {
  const Dims dims = shape_from_python(shape, "unravel_index");
  const Array found = [&] {
    const WithoutGil released;
    return ops::unravel_index(indices, dims);
  }();
  return rows(found);
}

Array ravel_multi_index(const py::sequence& indices, py::handle shape, const std::string& mode) {
  const py::tuple items = items_from_python(indices);
  const Dims dims = shape_from_python(shape, "ravel_multi_index");
  const ops::IndexMode how = mode_from(mode, "ravel_multi_index");
  std::vector<Array> arrays;
  std::optional<Device> device;
  for (const py::handle index : items)
    if (is_array(index.ptr())) device = array_of(index.ptr()).device();
  for (const py::handle index : items)
    arrays.push_back(
        index_from_python(index, device ? *device : default_device(), "ravel_multi_index"));
  const WithoutGil released;
  return ops::ravel_multi_index(arrays, dims, how);
}

}  // namespace

void bind_indexing(py::module_& m) {
  const auto no_axis = py::arg("axis") = py::none();
  const auto raise = py::arg("mode") = "raise";
  const auto no_out = py::arg("out") = py::none();
  m.def("take", take, py::arg("x"), py::arg("indices"), no_axis, raise, no_out,
        "Elements at positions along an axis.");
  m.def("take_along_axis", take_along_axis, py::arg("x"), py::arg("indices"), py::arg("axis") = -1,
        "Elements at positions that differ from line to line.");
  m.def("put_along_axis", put_along_axis, py::arg("x"), py::arg("indices"), py::arg("values"),
        py::arg("axis"), "Sets elements at positions that differ from line to line.");
  m.def("put", put, py::arg("x"), py::arg("indices"), py::arg("values"), raise,
        "Sets elements at positions of the flat array.");
  m.def("compress", compress, py::arg("condition"), py::arg("x"), no_axis, no_out,
        "Slices along an axis where a list of bools is true.");
  m.def("extract", extract, py::arg("condition"), py::arg("x"),
        "Elements where the condition is true, in C order.");
  m.def("place", place, py::arg("x"), py::arg("mask"), py::arg("values"),
        "Sets the elements where the mask is true, from values repeated as often as needed.");
  m.def(
      "nonzero", [](const Array& x) { return rows(nonzero_of(x, "nonzero")); }, py::arg("x"),
      "Coordinates of elements that are not zero: one int64 array per axis.");
  m.def("argwhere", argwhere, py::arg("x"),
        "Coordinates of elements that are not zero: one row each.");
  m.def("flatnonzero", flatnonzero, py::arg("x"),
        "Positions in the flat array of elements that are not zero.");
  m.def("unravel_index", unravel_index, py::arg("indices"), py::arg("shape"),
        "Flat positions to coordinates: one int64 array per axis.");
  m.def("ravel_multi_index", ravel_multi_index, py::arg("multi_index"), py::arg("dims"), raise,
        "Coordinates, one array per axis, to flat positions.");
}

}  // namespace gpk::bind
