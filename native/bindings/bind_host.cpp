// Loops of CPU simulation that NumPy does not have, called by pygpukit._reference.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/python.h"
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
  if (x.ndim() != 2 || out.ndim() != 2 || x.shape(0) != out.shape(0) || x.shape(1) != out.shape(1))
    throw InvalidArgument("host_scan: x and out must be matrices of one shape");
  const float* from = x.data();
  float* to = out.mutable_data();
  const std::int64_t rows = x.shape(0);
  const std::int64_t cols = x.shape(1);
  const WithoutGil released;
  ops::scan_rows(from, to, rows, cols, product);
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
        "Running sums or products of the rows of a float32 matrix, accumulated in float64.");
}

}  // namespace gpk::bind
