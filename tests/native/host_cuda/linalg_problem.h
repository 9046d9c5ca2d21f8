// Matrices for tests of the linalg kernels: stacks, and kinds of contents that are hard on a
// factorisation.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <vector>

#include "linalg/matrix.cuh"

namespace gpk::linalg_test {

using Wide = std::complex<double>;

inline std::size_t as_size(long long x) { return static_cast<std::size_t>(x); }

template <class T>
Wide widen(T x) {
  return {static_cast<double>(Number<T>::real(x)), static_cast<double>(Number<T>::imag(x))};
}

template <class T>
T narrow(Wide x) {
  using R = RealOf<T>;
  if constexpr (sizeof(T) == sizeof(R)) {
    return static_cast<R>(x.real());
  } else {
    return {static_cast<R>(x.real()), static_cast<R>(x.imag())};
  }
}

template <class T>
double epsilon() {
  return static_cast<double>(kEpsilon<RealOf<T>>);
}

// A row-major stack of matrices.
template <class T>
struct Stack {
  int batch, rows, cols;
  std::vector<T> data;

  Stack(int b, int m, int n) : batch(b), rows(m), cols(n), data(as_size(1LL * b * m * n)) {}
  Wide at(int b, int i, int j) const { return widen(data[as_size((b * rows + i) * cols + j)]); }
  void set(int b, int i, int j, Wide x) { data[as_size((b * rows + i) * cols + j)] = narrow<T>(x); }
  LinalgMatrix args() { return {data.data(), 1LL * rows * cols, cols, 1}; }
};

template <class T>
Stack<T> random_stack(int batch, int rows, int cols, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> draw;
  Stack<T> a(batch, rows, cols);
  for (int b = 0; b < batch; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        const double re = draw(bits);
        a.set(b, i, j, {re, draw(bits)});
      }
  return a;
}

// a a^H / n, plus `shift` on the diagonal.
template <class T>
Stack<T> gram_of(const Stack<T>& a, double shift) {
  Stack<T> g(a.batch, a.rows, a.rows);
  for (int b = 0; b < a.batch; ++b)
    for (int i = 0; i < a.rows; ++i)
      for (int j = 0; j <= i; ++j) {
        Wide sum = i == j ? shift : 0.0;
        for (int k = 0; k < a.cols; ++k)
          sum += a.at(b, i, k) * std::conj(a.at(b, j, k)) / static_cast<double>(a.cols);
        g.set(b, i, j, i == j ? sum.real() : sum);
        g.set(b, j, i, i == j ? sum.real() : std::conj(sum));
      }
  return g;
}

enum class Kind { kRandom, kGraded, kDeficient, kClustered, kHuge, kTiny, kSkewed };
inline constexpr Kind kKinds[] = {Kind::kRandom, Kind::kGraded, Kind::kDeficient, Kind::kClustered,
                                  Kind::kHuge,   Kind::kTiny,   Kind::kSkewed};

// Graded: columns over many orders of magnitude. Deficient: half the rank. Clustered: near a
// multiple of the identity. Huge, tiny: squares are out of range. Skewed: rows and columns on
// scales of their own.
template <class T>
Stack<T> stack_of(Kind kind, int batch, int rows, int cols, unsigned seed) {
  Stack<T> a = random_stack<T>(batch, rows, cols, seed);
  const bool single = sizeof(RealOf<T>) == 4;
  std::mt19937 bits(seed + 1);
  std::uniform_real_distribution<double> power(single ? -3.0 : -8.0, single ? 3.0 : 8.0);
  std::vector<double> row_scale(as_size(rows), 1.0);
  std::vector<double> col_scale(as_size(cols), 1.0);
  if (kind == Kind::kSkewed) {
    for (double& scale : row_scale) scale = std::pow(10.0, power(bits));
    for (double& scale : col_scale) scale = std::pow(10.0, power(bits));
  }
  if (kind == Kind::kGraded)
    for (int j = 0; j < cols; ++j)
      col_scale[as_size(j)] = std::pow(10.0, (single ? -6.0 : -12.0) * j / std::max(cols, 1));
  double factor = 1.0;
  if (kind == Kind::kHuge) factor = single ? 1e25 : 1e200;
  if (kind == Kind::kTiny) factor = single ? 1e-28 : 1e-200;
  const int rank = std::max(std::min(rows, cols) / 2, 1);
  for (int b = 0; b < batch; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        Wide x = a.at(b, i, j);
        if (kind == Kind::kDeficient && j >= rank) x = a.at(b, i, j % rank) * (1.0 + j / rank);
        if (kind == Kind::kClustered) x = x * 1e-3 + (i == j ? 1.0 : 0.0);
        a.set(b, i, j, x * (factor * row_scale[as_size(i)] * col_scale[as_size(j)]));
      }
  return a;
}

}  // namespace gpk::linalg_test
