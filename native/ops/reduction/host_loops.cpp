#include "ops/reduction/host_loops.h"

#include <algorithm>

// Compiled for AVX2 too and chosen when the library is loaded; the results are the same. TSan runs
// before such a choice is possible.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define GPK_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define GPK_WIDE_VECTORS
#endif

namespace gpk::ops {
namespace {

// Sums that run side by side, which a compiler makes vectors of.
constexpr int kLanes = 16;
constexpr std::int64_t kColumns = 1024;  // sums that stay in the L1
constexpr std::int64_t kLine = 4096;     // the same beside one line of elements

constexpr int kStep = 64;  // elements of each row that are fetched ahead

// The sum of eight, as a tree in float32.
float tree(const float* x, std::int64_t stride) {
  const float a = (x[0] + x[stride]) + (x[2 * stride] + x[3 * stride]);
  const float b = (x[4 * stride] + x[5 * stride]) + (x[6 * stride] + x[7 * stride]);
  return a + b;
}

// The next eight: a processor foresees one stream better than eight.
inline void prefetch([[maybe_unused]] const float* x, [[maybe_unused]] std::int64_t stride) {
#ifdef __GNUC__
  for (int row = 0; row < 8; ++row)
    for (int line = 0; line < kStep; line += 16) __builtin_prefetch(x + row * stride + line);
#endif
}

double squared(float x, double mean) {
  const double distance = static_cast<double>(x) - mean;
  return distance * distance;
}

// Of the first kLanes, which it overwrites.
double total(double* parts) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int c = 0; c < half; ++c) parts[c] += parts[c + half];
  return parts[0];
}

double square_row(const float* x, std::int64_t count, double mean) {
  double parts[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int c = 0; c < kLanes; ++c) parts[c] += squared(x[i + c], mean);
  for (; i < count; ++i) parts[i % kLanes] += squared(x[i], mean);
  return total(parts);
}

GPK_WIDE_VECTORS void sum_columns(const float* x, double* out, std::int64_t rows,
                                  std::int64_t pitch, std::int64_t width) {
  std::int64_t j = 0;
  for (; j + 8 <= rows; j += 8) {
    const bool more = j + 16 <= rows;
    for (std::int64_t first = 0; first < width; first += kStep) {
      if (more) prefetch(x + (j + 8) * pitch + first, pitch);
      const std::int64_t end = std::min(width, first + kStep);
      for (std::int64_t i = first; i < end; ++i)
        out[i] += static_cast<double>(tree(x + j * pitch + i, pitch));
    }
  }
  for (; j < rows; ++j)
    for (std::int64_t i = 0; i < width; ++i) out[i] += static_cast<double>(x[j * pitch + i]);
}

// As a matrix of at least eight rows, whose columns are summed.
double sum_row(const float* x, std::int64_t count) {
  double parts[kColumns];
  const std::int64_t width = std::min(kColumns, count / 32 / kLanes * kLanes);
  const std::int64_t rows = width == 0 ? 0 : count / width;
  std::fill_n(parts, std::max<std::int64_t>(width, kLanes), 0.0);
  sum_columns(x, parts, rows, width, width);
  for (std::int64_t i = rows * width; i < count; ++i)
    parts[i % kLanes] += static_cast<double>(x[i]);
  for (std::int64_t i = kLanes; i < width; ++i) parts[i % kLanes] += parts[i];
  return total(parts);
}

GPK_WIDE_VECTORS void square_columns(const float* x, const double* mean, double* out,
                                     std::int64_t rows, std::int64_t pitch, std::int64_t width) {
  for (std::int64_t j = 0; j < rows; ++j)
    for (std::int64_t i = 0; i < width; ++i) out[i] += squared(x[j * pitch + i], mean[i]);
}

constexpr int kTogether = 4;  // rows whose additions overlap

template <bool kProduct, int kRows>
void scan(const float* x, float* out, std::int64_t cols) {
  double acc[kRows];
  for (double& a : acc) a = kProduct ? 1.0 : 0.0;
  for (std::int64_t i = 0; i < cols; ++i)
    for (int r = 0; r < kRows; ++r) {
      const auto value = static_cast<double>(x[r * cols + i]);
      acc[r] = kProduct ? acc[r] * value : acc[r] + value;
      out[r * cols + i] = static_cast<float>(acc[r]);
    }
}

template <bool kProduct>
void scan_rows(const float* x, float* out, std::int64_t rows, std::int64_t cols) {
  std::int64_t row = 0;
  for (; row + kTogether <= rows; row += kTogether)
    scan<kProduct, kTogether>(x + row * cols, out + row * cols, cols);
  for (; row < rows; ++row) scan<kProduct, 1>(x + row * cols, out + row * cols, cols);
}

// Down `width` columns of a matrix with rows of `pitch` elements.
template <bool kProduct>
void scan_columns(const float* x, float* out, std::int64_t rows, std::int64_t pitch,
                  std::int64_t width) {
  double acc[kColumns];
  std::fill_n(acc, width, kProduct ? 1.0 : 0.0);
  for (std::int64_t j = 0; j < rows; ++j)
    for (std::int64_t i = 0; i < width; ++i) {
      const auto value = static_cast<double>(x[j * pitch + i]);
      acc[i] = kProduct ? acc[i] * value : acc[i] + value;
      out[j * pitch + i] = static_cast<float>(acc[i]);
    }
}

template <bool kProduct>
void scan_all(const float* x, float* out, const ScanShape& shape) {
  if (shape.inner == 1) {
    scan_rows<kProduct>(x, out, shape.outer, shape.scanned);
    return;
  }
  for (std::int64_t o = 0; o < shape.outer; ++o)
    for (std::int64_t first = 0; first < shape.inner; first += kColumns) {
      const std::int64_t at = o * shape.scanned * shape.inner + first;
      scan_columns<kProduct>(x + at, out + at, shape.scanned, shape.inner,
                             std::min(kColumns, shape.inner - first));
    }
}

}  // namespace

void sum_wide(const float* x, const double* mean, double* out, const SumShape& shape) {
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    const float* const part = x + o * shape.reduced * shape.inner;
    const double* const about = mean == nullptr ? nullptr : mean + o * shape.inner;
    double* const result = out + o * shape.inner;
    if (shape.inner == 1) {
      *result =
          about == nullptr ? sum_row(part, shape.reduced) : square_row(part, shape.reduced, *about);
      continue;
    }
    std::fill_n(result, shape.inner, 0.0);
    for (std::int64_t first = 0; first < shape.inner; first += kLine) {
      const std::int64_t width = std::min(kLine, shape.inner - first);
      if (about == nullptr) {
        sum_columns(part + first, result + first, shape.reduced, shape.inner, width);
      } else {
        square_columns(part + first, about + first, result + first, shape.reduced, shape.inner,
                       width);
      }
    }
  }
}

void scan_wide(const float* x, float* out, const ScanShape& shape, bool product) {
  if (product) {
    scan_all<true>(x, out, shape);
  } else {
    scan_all<false>(x, out, shape);
  }
}

}  // namespace gpk::ops
