// Sorts, searches in sorted data, sets, histograms, quantiles.
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/output.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/sorting/histogram.h"
#include "ops/sorting/quantile.h"
#include "ops/sorting/search.h"
#include "ops/sorting/sets.h"
#include "ops/sorting/sort.h"
#include "ops/sorting/unique.h"

namespace gpk::bind {
namespace {

// None or an array; `argument` is named when it is neither.
std::optional<Array> optional_array(py::handle object, const char* op, const char* argument) {
  if (object.is_none()) return std::nullopt;
  if (is_array(object.ptr())) return array_of(object.ptr());
  throw InvalidArgument(
      InvalidArgument::Kind::kType,
      cat(op, ": ", argument, " is ", safe_repr(object), ", expected a GPUArray"));
}

std::int64_t integer(py::handle object, const char* op, const char* argument) {
  if (!PyIndex_Check(object.ptr()))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": ", argument, " is ", safe_repr(object), ", expected an integer"));
  const py::object number = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!number) throw py::error_already_set();
  return number.cast<std::int64_t>();
}

ops::OptionalAxis optional_axis(py::handle object, const char* op) {
  if (object.is_none()) return std::nullopt;
  return integer(object, op, "axis");
}

// None, an int or a tuple of ints.
std::optional<Dims> optional_axes(py::handle object, const char* op) {
  if (object.is_none()) return std::nullopt;
  if (PyIndex_Check(object.ptr())) return Dims{integer(object, op, "axis")};
  std::vector<std::int64_t> axes;
  for (const py::handle axis : py::reinterpret_borrow<py::iterable>(object))
    axes.push_back(integer(axis, op, "axis"));
  return Dims(axes);
}

Dims indices(py::handle object, const char* op, const char* argument) {
  if (PyIndex_Check(object.ptr())) return {integer(object, op, argument)};
  if (!PySequence_Check(object.ptr())) return {integer(object, op, argument)};
  std::vector<std::int64_t> values;
  for (const py::handle item : items_from_python(object))
    values.push_back(integer(item, op, argument));
  return Dims(values);
}

using SortFunction = Array (*)(const Array&, ops::OptionalAxis, bool, const std::optional<Array>&,
                               const char*);

void def_sort(py::module_& m, const char* op, SortFunction function, const char* doc) {
  m.def(
      op,
      [op, function](const Array& x, py::handle axis, bool descending, py::handle out) {
        const ops::OptionalAxis along = optional_axis(axis, op);
        return call_with_out(out, op, [&](const std::optional<Array>& into) {
          return function(x, along, descending, into, op);
        });
      },
      py::arg("x"), py::arg("axis") = -1, py::arg("descending") = false,
      py::arg("out") = py::none(), doc);
}

using PartitionFunction = Array (*)(const Array&, const Dims&, ops::OptionalAxis);

void def_partition(py::module_& m, const char* op, PartitionFunction function, const char* doc) {
  m.def(
      op,
      [op, function](const Array& x, py::handle kth, py::handle axis) {
        const Dims places = indices(kth, op, "kth");
        const ops::OptionalAxis along = optional_axis(axis, op);
        const WithoutGil released;
        return function(x, places, along);
      },
      py::arg("x"), py::arg("kth"), py::arg("axis") = -1, doc);
}

void bind_sorts(py::module_& m) {
  def_sort(m, "sort", ops::sort, "The elements along an axis in order; stable.");
  def_sort(m, "argsort", ops::argsort, "The indices that sort along an axis; stable.");
  def_partition(m, "partition", ops::partition,
                "Element kth in its sorted place, smaller ones before it.");
  def_partition(m, "argpartition", ops::argpartition, "The indices of partition.");
  m.def(
      "topk",
      [](const Array& x, std::int64_t k, std::int64_t axis, bool largest) {
        const WithoutGil released;
        return ops::topk(x, k, axis, largest);
      },
      py::arg("x"), py::arg("k"), py::arg("axis") = -1, py::arg("largest") = true,
      "The k largest or smallest elements along an axis in order, and their indices.");
  m.def(
      "lexsort",
      [](const std::vector<Array>& keys, std::int64_t axis) {
        const WithoutGil released;
        return ops::lexsort(keys, axis);
      },
      py::arg("keys"), py::arg("axis") = -1,
      "The indices that sort by several keys, the last one being the most important.");
}

py::tuple unique_tuple(const Array& x, bool index, bool inverse, bool counts, bool equal_nan,
                       const std::string& op) {
  std::optional<ops::UniqueResult> result;
  {
    const WithoutGil released;
    result = ops::unique(x, {index, inverse, counts, equal_nan}, op.c_str());
  }
  const auto object = [](std::optional<Array>& array) -> py::object {
    return array ? py::cast(std::move(*array)) : py::none();
  };
  return py::make_tuple(py::cast(std::move(result->values)), object(result->index),
                        object(result->inverse), object(result->counts));
}

using SetFunction = Array (*)(const Array&, const Array&, bool);

void def_set(py::module_& m, const char* op, SetFunction function, const char* doc) {
  m.def(
      op,
      [function](const Array& x1, const Array& x2, bool assume_unique) {
        const WithoutGil released;
        return function(x1, x2, assume_unique);
      },
      py::arg("x1"), py::arg("x2"), py::arg("assume_unique") = false, doc);
}

void bind_sets(py::module_& m) {
  m.def("unique", unique_tuple, py::arg("x"), py::arg("return_index") = false,
        py::arg("return_inverse") = false, py::arg("return_counts") = false,
        py::arg("equal_nan") = true, py::arg("op") = "unique",
        "(values, indices, inverse indices, counts); None for what was not asked for.");
  m.def(
      "union1d",
      [](const Array& x1, const Array& x2) {
        const WithoutGil released;
        return ops::union1d(x1, x2);
      },
      py::arg("x1"), py::arg("x2"), "The elements of either of two sets, sorted.");
  def_set(m, "intersect1d", ops::intersect1d, "The elements of both of two sets, sorted.");
  def_set(m, "setdiff1d", ops::setdiff1d, "The elements of x1 that are not in x2.");
  def_set(m, "setxor1d", ops::setxor1d, "The elements of exactly one of two sets, sorted.");
  m.def(
      "isin",
      [](const Array& x1, const Array& x2, bool invert) {
        const WithoutGil released;
        return ops::isin(x1, x2, invert);
      },
      py::arg("x1"), py::arg("x2"), py::arg("invert") = false,
      "Whether each element of x1 occurs in x2.");
}

// intersect1d's indices.
Array gather_1d(const Array& x, const Array& index) {
  const WithoutGil released;
  return ops::gather_flat(x, index);
}

void bind_searches(py::module_& m) {
  m.def(
      "searchsorted",
      [](const Array& x1, const Array& x2, const std::string& side, py::handle sorter) {
        if (side != "left" && side != "right")
          throw InvalidArgument(
              cat("searchsorted: side is '", side, "', expected 'left' or 'right'"));
        const std::optional<Array> through = optional_array(sorter, "searchsorted", "sorter");
        const WithoutGil released;
        return ops::searchsorted(x1, x2, side == "left" ? ops::Side::kLeft : ops::Side::kRight,
                                 through);
      },
      py::arg("x1"), py::arg("x2"), py::arg("side") = "left", py::arg("sorter") = py::none(),
      "Where the elements of x2 belong in the sorted array x1.");
  m.def(
      "digitize",
      [](const Array& x, const Array& bins, bool right) {
        const WithoutGil released;
        return ops::digitize(x, bins, right);
      },
      py::arg("x"), py::arg("bins"), py::arg("right") = false, "The bin each element falls into.");
  m.def("gather_1d", gather_1d, py::arg("x"), py::arg("index"),
        "x[index] for one-dimensional x and int64 indices that are inside.");
}

void bind_histograms(py::module_& m) {
  m.def(
      "histogram",
      [](const Array& x, py::handle bins, const std::optional<std::pair<double, double>>& range,
         py::handle weights, bool density) {
        ops::HistogramRequest request;
        if (is_array(bins.ptr()))
          request.edges = array_of(bins.ptr());
        else
          request.num_bins = integer(bins, "histogram", "bins");
        request.range = range;
        request.weights = optional_array(weights, "histogram", "weights");
        request.density = density;
        std::optional<ops::HistogramResult> result;
        {
          const WithoutGil released;
          result = ops::histogram(x, request);
        }
        return py::make_tuple(py::cast(std::move(result->counts)),
                              py::cast(std::move(result->edges)));
      },
      py::arg("x"), py::arg("bins") = 10, py::arg("range") = py::none(),
      py::arg("weights") = py::none(), py::arg("density") = false,
      "(counts, edges): bins is their number, or an array of edges.");
  m.def(
      "bincount",
      [](const Array& x, py::handle weights, std::int64_t minlength) {
        const std::optional<Array> given = optional_array(weights, "bincount", "weights");
        const WithoutGil released;
        return ops::bincount(x, given, minlength);
      },
      py::arg("x"), py::arg("weights") = py::none(), py::arg("minlength") = 0,
      "How often each integer from 0 on occurs, or the sum of its weights.");
}

void bind_quantiles(py::module_& m) {
  m.def(
      "median",
      [](const Array& x, py::handle axis, bool keepdims) {
        const std::optional<Dims> axes = optional_axes(axis, "median");
        const WithoutGil released;
        return ops::median(x, axes, keepdims);
      },
      py::arg("x"), py::arg("axis") = py::none(), py::arg("keepdims") = false,
      "The middle value along axes.");
  m.def(
      "quantile",
      [](const Array& x, const std::vector<double>& q, py::handle q_shape, bool wide,
         py::handle axis, bool keepdims, const std::string& op) {
        const std::optional<Dims> axes = optional_axes(axis, op.c_str());
        const Dims shape = shape_from_python(q_shape, op.c_str());
        const WithoutGil released;
        return ops::quantile(x, q, shape, wide, axes, keepdims, op.c_str());
      },
      py::arg("x"), py::arg("q"), py::arg("q_shape"), py::arg("wide"), py::arg("axis") = py::none(),
      py::arg("keepdims") = false, py::arg("op") = "quantile",
      "The values at fractions q along axes, interpolated linearly; float64 when wide.");
}

}  // namespace

void bind_sorting(py::module_& m) {
  bind_sorts(m);
  bind_sets(m);
  bind_searches(m);
  bind_histograms(m);
  bind_quantiles(m);
}

}  // namespace gpk::bind
