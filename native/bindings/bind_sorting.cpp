// Sorts, searches in sorted data, sets, histograms, quantiles.
#include "base/error.h"
#include "base/text.h"
#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "ops/sorting/histogram.h"
#include "ops/sorting/quantile.h"
#include "ops/sorting/search.h"
#include "ops/sorting/sets.h"
#include "ops/sorting/sort.h"
#include "ops/sorting/unique.h"

namespace gpk::bind {
namespace {

using SortFunction = Array (*)(const Array&, ops::OptionalAxis, bool, const std::optional<Array>&,
                               const char*);

// Every sort is stable, so NumPy's kinds differ in nothing but their names.
void check_kind(const Arguments& args, int i) {
  if (args.is_none(i)) return;
  const std::string kind = args.text(i);
  for (const char* known : {"quicksort", "mergesort", "heapsort", "stable", "introselect"})
    if (kind == known) return;
  throw InvalidArgument(cat(args.op(), ": kind is '", kind,
                            "', expected 'quicksort', 'mergesort', 'heapsort' or 'stable'"));
}

// (x, axis, kind, descending, stable, out)
void define_sort(py::module_& m, const char* op, SortFunction function) {
  define(m, op, [op, function](const Arguments& args) {
    const Array& x = args.array_like(0);
    const ops::OptionalAxis axis = args.optional_integer(1);
    check_kind(args, 2);
    const bool descending = args.flag(3);
    return run_into(args, 5, [&](const std::optional<Array>& out) {
      return function(x, axis, descending, out, op);
    });
  });
}

using PartitionFunction = Array (*)(const Array&, const Dims&, ops::OptionalAxis);

// (x, kth, axis, kind)
void define_partition(py::module_& m, const char* op, PartitionFunction function) {
  define(m, op, [function](const Arguments& args) {
    const Array& x = args.array_like(0);
    const Dims places = args.integers(1);
    const ops::OptionalAxis axis = args.optional_integer(2);
    check_kind(args, 3);
    const WithoutGil released;
    return function(x, places, axis);
  });
}

void bind_sorts(py::module_& m) {
  define_sort(m, "sort", ops::sort);
  define_sort(m, "argsort", ops::argsort);
  define_partition(m, "partition", ops::partition);
  define_partition(m, "argpartition", ops::argpartition);
  define(m, "topk", [](const Arguments& args) -> py::object {
    const Array& x = args.array_like(0);
    const std::int64_t k = args.integer(1);
    const std::int64_t axis = args.integer(2);
    const bool largest = args.flag(3);
    auto found = [&] {
      const WithoutGil released;
      return ops::topk(x, k, axis, largest);
    }();
    return py::cast(std::move(found));
  });
  define(m, "lexsort", [](const Arguments& args) {
    std::vector<Array> keys;
    if (!PySequence_Check(args[0].ptr())) args.refuse(0, "a sequence of arrays");
    for (const py::handle key : items_from_python(args[0])) {
      if (!is_array(key.ptr()) && !is_list(key.ptr())) args.refuse(0, "a sequence of arrays");
      keys.push_back(is_array(key.ptr()) ? array_of(key.ptr())
                                         : array_from_list(key, nullptr, "lexsort", "keys"));
    }
    const std::int64_t axis = args.integer(1);
    const WithoutGil released;
    return ops::lexsort(keys, axis);
  });
}

// (x, return_index, return_inverse, return_counts, equal_nan, op)
py::object unique(const Arguments& args) {
  const Array& x = args.array_like(0);
  const ops::UniqueRequest request{args.flag(1), args.flag(2), args.flag(3), args.flag(4)};
  const std::string op = args.text(5);
  std::optional<ops::UniqueResult> result;
  {
    const WithoutGil released;
    result = ops::unique(x, request, op.c_str());
  }
  const auto object = [](std::optional<Array>& array) -> py::object {
    return array ? py::cast(std::move(*array)) : py::none();
  };
  return py::make_tuple(py::cast(std::move(result->values)), object(result->index),
                        object(result->inverse), object(result->counts));
}

using SetFunction = Array (*)(const Array&, const Array&, bool);

// (x1, x2, assume_unique)
void define_set(py::module_& m, const char* op, SetFunction function) {
  define(m, op, [function](const Arguments& args) {
    const Array& x1 = args.array_like(0);
    const Array& x2 = args.array_like(1);
    const bool assume_unique = args.flag(2);
    const WithoutGil released;
    return function(x1, x2, assume_unique);
  });
}

void bind_sets(py::module_& m) {
  define(m, "unique", unique);
  define_set(m, "intersect1d", ops::intersect1d);
  define_set(m, "setdiff1d", ops::setdiff1d);
  define_set(m, "setxor1d", ops::setxor1d);
  define(m, "union1d", [](const Arguments& args) {
    const Array& x1 = args.array_like(0);
    const Array& x2 = args.array_like(1);
    const WithoutGil released;
    return ops::union1d(x1, x2);
  });
  define(m, "isin", [](const Arguments& args) {
    const Array& x1 = args.array_like(0);
    const Array& x2 = args.array_like(1);
    const bool invert = args.flag(3);
    const WithoutGil released;
    return ops::isin(x1, x2, invert);
  });
}

// (x1, x2, side, sorter)
Array searchsorted(const Arguments& args) {
  const Array& x1 = args.array_like(0);
  const Array& x2 = args.array_like(1);
  const std::string side = args.text(2);
  if (side != "left" && side != "right")
    throw InvalidArgument(cat("searchsorted: side is '", side, "', expected 'left' or 'right'"));
  const std::optional<Array> sorter = args.optional_array_like(3);
  const WithoutGil released;
  return ops::searchsorted(x1, x2, side == "left" ? ops::Side::kLeft : ops::Side::kRight, sorter);
}

void bind_searches(py::module_& m) {
  define(m, "searchsorted", searchsorted);
  define(m, "digitize", [](const Arguments& args) {
    const Array& x = args.array_like(0);
    const Array& bins = args.array_like(1);
    const bool right = args.flag(2);
    const WithoutGil released;
    return ops::digitize(x, bins, right);
  });
  define(m, "gather_1d", [](const Arguments& args) {
    const Array& x = args.array_like(0);
    const Array& index = args.array_like(1);
    const WithoutGil released;
    return ops::gather_flat(x, index);
  });
}

std::optional<std::pair<double, double>> range_argument(const Arguments& args, int i) {
  if (args.is_none(i)) return std::nullopt;
  try {
    return args[i].cast<std::pair<double, double>>();
  } catch (const py::cast_error&) {
    args.refuse(i, "a pair of numbers or None");
  }
}

// (x, bins, range, density, weights)
py::object histogram(const Arguments& args) {
  const Array& x = args.array_like(0);
  ops::HistogramRequest request;
  if (is_array(args[1].ptr()))
    request.edges = args.array_like(1);
  else
    request.num_bins = args.integer(1);
  request.range = range_argument(args, 2);
  request.density = args.flag(3);
  request.weights = args.optional_array(4);
  std::optional<ops::HistogramResult> result;
  {
    const WithoutGil released;
    result = ops::histogram(x, request);
  }
  return py::make_tuple(py::cast(std::move(result->counts)), py::cast(std::move(result->edges)));
}

// (x, q, q_shape, wide, axis, keepdims, op)
Array quantile(const Arguments& args) {
  const Array& x = args.array_like(0);
  const std::string op = args.text(6);
  std::vector<double> fractions;
  for (const py::handle q : items_from_python(args[1])) fractions.push_back(q.cast<double>());
  const Dims shape = shape_from_python(args[2], op.c_str());
  const bool wide = args.flag(3);
  const std::optional<Dims> axes = optional_ints(args[4], op.c_str(), "axis");
  const bool keepdims = args.flag(5);
  const WithoutGil released;
  return ops::quantile(x, fractions, shape, wide, axes, keepdims, op.c_str());
}

void bind_statistics(py::module_& m) {
  define(m, "histogram", histogram);
  define(m, "quantile", quantile);
  define(m, "bincount", [](const Arguments& args) {
    const Array& x = args.array_like(0);
    const std::optional<Array> weights = args.optional_array_like(1);
    const std::int64_t min_length = args.integer(2);
    const WithoutGil released;
    return ops::bincount(x, weights, min_length);
  });
  define(m, "median", [](const Arguments& args) {
    const Array& x = args.array_like(0);
    const std::optional<Dims> axes = args.optional_integers(1);
    const bool keepdims = args.flag(2);
    const WithoutGil released;
    return ops::median(x, axes, keepdims);
  });
}

}  // namespace

void bind_sorting(py::module_& m) {
  bind_sorts(m);
  bind_sets(m);
  bind_searches(m);
  bind_statistics(m);
}

}  // namespace gpk::bind
