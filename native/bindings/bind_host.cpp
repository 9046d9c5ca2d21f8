// Loops of CPU simulation that NumPy does not have, called by pygpukit._reference.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/python.h"
#include "ops/elementwise/host_select.h"
#include "ops/indexing/host_pick.h"
#include "ops/random/host_draws.h"
#include "ops/random/host_words.h"
#include "ops/reduction/host_loops.h"

namespace gpk::bind {
namespace {

template <class T>
using Contiguous = py::array_t<T, py::array::c_style>;

void host_random_words(std::uint64_t key, std::uint64_t position_low, std::uint32_t position_high,
                       std::uint64_t first, Contiguous<std::uint32_t> out) {
  const auto size = static_cast<std::size_t>(out.size());
  if (size % 4 != 0)
    throw InvalidArgument(
        cat("host_random_words: out has ", size, " elements, expected a multiple of 4"));
  const std::span<std::uint32_t> words(out.mutable_data(), size);
  const WithoutGil released;
  ops::random_words({key, position_low, position_high, 0}, first, words);
}

// x is [outer, reduced, inner]; mean, where given, and out are [outer, inner].
void host_sum(const Contiguous<float>& x, const std::optional<Contiguous<double>>& mean,
              Contiguous<double> out) {
  if (x.ndim() != 3 || out.size() != x.shape(0) * x.shape(2) ||
      (mean && mean->size() != out.size()))
    throw InvalidArgument(
        "host_sum: x has shape [outer, reduced, inner], mean and out must have "
        "[outer, inner]");
  const ops::SumShape shape{x.shape(0), x.shape(1), x.shape(2)};
  const float* from = x.data();
  const double* about = mean ? mean->data() : nullptr;
  double* to = out.mutable_data();
  const WithoutGil released;
  ops::sum_wide(from, about, to, shape);
}

void host_scan(const Contiguous<float>& x, bool product, Contiguous<float> out) {
  if (x.ndim() != 3 || out.size() != x.size())
    throw InvalidArgument(
        "host_scan: x has shape [outer, scanned, inner], out must have as many elements");
  const float* from = x.data();
  float* to = out.mutable_data();
  const ops::ScanShape shape{x.shape(0), x.shape(1), x.shape(2)};
  const WithoutGil released;
  ops::scan_wide(from, to, shape, product);
}

void host_random_units(std::uint64_t key, std::uint64_t position_low, std::uint32_t position_high,
                       Contiguous<float> out) {
  const std::span<float> values(out.mutable_data(), static_cast<std::size_t>(out.size()));
  const WithoutGil released;
  ops::random_units({key, position_low, position_high, 0}, values);
}

void host_random_normals(std::uint64_t key, std::uint64_t position_low, std::uint32_t position_high,
                         double loc, double scale, Contiguous<float> out) {
  const std::span<float> values(out.mutable_data(), static_cast<std::size_t>(out.size()));
  const WithoutGil released;
  ops::random_normals({key, position_low, position_high, 0}, loc, scale, values);
}

bool is_contiguous(const py::array& x) { return (x.flags() & py::array::c_style) != 0; }

// Elements are read and written at the same place, or in different memory.
bool may_write_over(const py::array& x, const py::array& out) {
  const auto* const from = static_cast<const std::byte*>(x.data());
  const auto* const to = static_cast<const std::byte*>(out.data());
  return from + x.nbytes() <= to || to + out.nbytes() <= from ||
         (from == to && x.nbytes() == out.nbytes());
}

// False where the operands are not what the loop takes.
bool host_select(const py::array& condition, const py::array& x, const py::array& y,
                 py::array out) {
  const py::ssize_t bytes = out.itemsize();
  const bool known = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
  const auto fits = [&](const py::array& operand) {
    return operand.itemsize() == bytes && is_contiguous(operand) &&
           (operand.size() == 1 || operand.size() == out.size()) && may_write_over(operand, out);
  };
  if (!known || condition.itemsize() != 1 || condition.size() != out.size() ||
      !is_contiguous(condition) || !may_write_over(condition, out) || !is_contiguous(out) ||
      !fits(x) || !fits(y))
    return false;
  const py::ssize_t count = out.size();
  const ops::Selectable first{x.data(), x.size() != count};
  const ops::Selectable second{y.data(), y.size() != count};
  const auto* const test = static_cast<const bool*>(condition.data());
  void* const to = out.mutable_data();
  const WithoutGil released;
  ops::select(test, first, second, to, count, static_cast<std::size_t>(bytes));
  return true;
}

bool is_apart(const py::array& x, const py::array& out) {
  return x.data() != out.data() && may_write_over(x, out);
}

// x as [outer, axes that `picks` replaces, inner], where out has `count` elements along the middle.
ops::PickShape pick_shape(const py::array& x, int first, int num_axes, std::int64_t count) {
  ops::PickShape shape{1, 1, count, static_cast<std::size_t>(x.itemsize())};
  for (int i = 0; i < first; ++i) shape.outer *= x.shape(i);
  for (int i = first; i < first + num_axes; ++i) shape.size *= x.shape(i);
  for (int i = first + num_axes; i < x.ndim(); ++i)
    shape.inner_bytes *= static_cast<std::size_t>(x.shape(i));
  return shape;
}

bool can_pick(const py::array& x, const py::array& by, const py::array& out, int axis,
              int num_axes) {
  return axis >= 0 && axis + num_axes <= x.ndim() && x.itemsize() == out.itemsize() &&
         is_contiguous(x) && is_contiguous(by) && is_contiguous(out) && is_apart(x, out) &&
         is_apart(by, out);
}

// False where the operands are not what the loop takes, or an index is out of bounds.
bool host_take(const py::array& x, const py::array& index, int axis, py::array out) {
  const py::ssize_t bytes = index.itemsize();
  if (index.dtype().kind() != 'i' || (bytes != 4 && bytes != 8) ||
      !can_pick(x, index, out, axis, 1))
    return false;
  const auto count = static_cast<std::size_t>(index.size());
  const ops::PickShape shape = pick_shape(x, axis, 1, index.size());
  if (static_cast<std::int64_t>(shape.inner_bytes) * shape.outer * shape.count != out.nbytes())
    return false;
  const void* const from = x.data();
  const void* const places = index.data();
  void* const to = out.mutable_data();
  const WithoutGil released;
  if (bytes == 4)
    return ops::take_lines(from, {static_cast<const std::int32_t*>(places), count}, to, shape);
  return ops::take_lines(from, {static_cast<const std::int64_t*>(places), count}, to, shape);
}

// The mask covers the axes of x from `axis` on; `count` of its elements are true. False where the
// operands are not what the loop takes.
bool host_compact(const py::array& x, const py::array& mask, int axis, std::int64_t count,
                  py::array out) {
  const int num_axes = static_cast<int>(mask.ndim());
  if (mask.itemsize() != 1 || !can_pick(x, mask, out, axis, num_axes)) return false;
  const ops::PickShape shape = pick_shape(x, axis, num_axes, count);
  if (shape.size != mask.size() ||
      static_cast<std::int64_t>(shape.inner_bytes) * shape.outer * count != out.nbytes())
    return false;
  const void* const from = x.data();
  const auto* const bytes = static_cast<const unsigned char*>(mask.data());
  void* const to = out.mutable_data();
  const WithoutGil released;
  ops::compact_lines(from, bytes, to, shape);
  return true;
}

}  // namespace

void bind_host(py::module_& m) {
  m.def("host_random_words", host_random_words, py::arg("key"), py::arg("position_low"),
        py::arg("position_high"), py::arg("first"), py::arg("out").noconvert(),
        "Fills a contiguous uint32 array with the words of a stream from block `first` on.");
  m.def("host_sum", host_sum, py::arg("x").noconvert(), py::arg("mean").noconvert(),
        py::arg("out").noconvert(),
        "Sums over the middle axis of a float32 array in float64; with mean, of squares about it.");
  m.def("host_scan", host_scan, py::arg("x").noconvert(), py::arg("product"),
        py::arg("out").noconvert(),
        "Running sums or products along the middle axis of a float32 array, in float64.");
  m.def("host_random_units", host_random_units, py::arg("key"), py::arg("position_low"),
        py::arg("position_high"), py::arg("out").noconvert(),
        "Fills a contiguous float32 array with a stream's numbers in [0, 1).");
  m.def("host_random_normals", host_random_normals, py::arg("key"), py::arg("position_low"),
        py::arg("position_high"), py::arg("loc"), py::arg("scale"), py::arg("out").noconvert(),
        "Fills a contiguous float32 array with a stream's normal numbers.");
  m.def("host_select", host_select, py::arg("condition"), py::arg("x"), py::arg("y"),
        py::arg("out"),
        "out = x where the condition holds, else y, for contiguous arrays of one element size and "
        "bool conditions; x and y may be one element. False where they are not such arrays.");
  m.def("host_take", host_take, py::arg("x"), py::arg("index"), py::arg("axis"), py::arg("out"),
        "out = x at int32 or int64 positions along an axis, for contiguous arrays. False, and "
        "nothing written, where they are not such arrays or an index is out of bounds.");
  m.def("host_compact", host_compact, py::arg("x"), py::arg("mask"), py::arg("axis"),
        py::arg("count"), py::arg("out"),
        "out = x at the `count` true elements of a mask of the axes from `axis` on, for contiguous "
        "arrays. False where they are not such arrays.");
}

}  // namespace gpk::bind
