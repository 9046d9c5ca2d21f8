// The kernels of native/kernels/linalg on the host, on matrices that are hard on a factorisation:
// residuals of 10 n epsilon, as LAPACK's, and what becomes of singular and non-finite ones.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <limits>

#include "linalg/cholesky.cuh"
#include "linalg/eigh.cuh"
#include "linalg/lu.cuh"
#include "linalg/qr.cuh"
#include "linalg_problem.h"

namespace gpk {
namespace {

using namespace linalg_test;

constexpr double kUnits = 10.0;    // residuals, in n * epsilon
constexpr unsigned kThreads = 64;  // any number of warps: few are quick on the host

template <class T>
double largest_of(const Stack<T>& a, int b, int first_col, int num_cols) {
  double largest = 0.0;
  for (int i = 0; i < a.rows; ++i)
    for (int j = first_col; j < first_col + num_cols; ++j)
      largest = std::max(largest, std::abs(a.at(b, i, j)));
  return largest;
}

template <class T>
void check_lu(Kind kind, int rows, int cols) {
  Stack<T> a = stack_of<T>(kind, 2, rows, cols, 11);
  const Stack<T> given = a;
  const int k = std::min(rows, cols);
  std::vector<int> pivots(as_size(2 * k));
  std::vector<int> status(2);
  LuArgs args{};
  args.a = a.args();
  args.pivots = pivots.data();
  args.pivots_batch = k;
  args.status = status.data();
  args.rows = rows;
  args.cols = cols;
  host_cuda::launch(2, kThreads, [&] { lu_leaf<T, true>(args); });
  for (int b = 0; b < 2; ++b) {
    std::vector<int> order(as_size(rows));
    for (int i = 0; i < rows; ++i) order[as_size(i)] = i;
    for (int i = 0; i < k; ++i)
      std::swap(order[as_size(i)], order[as_size(pivots[as_size(b * k + i)])]);
    const double limit = kUnits * std::max(rows, cols) * epsilon<T>() *
                         std::max(largest_of(given, b, 0, cols), largest_of(a, b, 0, cols));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        Wide rest = given.at(b, order[as_size(i)], j);
        for (int l = 0; l <= std::min({i, j, k - 1}); ++l)
          rest -= (l == i ? Wide(1.0) : a.at(b, i, l)) * a.at(b, l, j);
        ASSERT_LE(std::abs(rest), limit)
            << "kind " << static_cast<int>(kind) << ": " << i << ", " << j;
        if (j < i && j < k) {
          ASSERT_LE(std::abs(a.at(b, i, j)), 1.5);
        }
      }
  }
}

TEST(LinalgKinds, Lu) {
  for (const Kind kind : kKinds) {
    check_lu<float>(kind, 17, 17);
    check_lu<double>(kind, 12, 7);
    check_lu<complex64>(kind, 5, 5);
    check_lu<complex128>(kind, 7, 9);
  }
}

template <class T>
void check_qr(Kind kind, int rows, int cols) {
  Stack<T> a = stack_of<T>(kind, 2, rows, cols, 12);
  const Stack<T> given = a;
  const int k = std::min(rows, cols);
  std::vector<T> tau(as_size(2 * k));
  const QrArgs args{a.args(), tau.data(), k, rows, cols};
  host_cuda::launch(2, kThreads, [&] { qr_leaf<T, true>(args); });
  for (int b = 0; b < 2; ++b)
    for (int c = 0; c < cols; ++c) {
      // H_0 H_1 ... R[:, c], the last reflector first.
      std::vector<Wide> x(as_size(rows));
      for (int i = 0; i < rows; ++i) x[as_size(i)] = i <= c && i < k ? a.at(b, i, c) : Wide(0.0);
      for (int j = k - 1; j >= 0; --j) {
        Wide dot = x[as_size(j)];
        for (int i = j + 1; i < rows; ++i) dot += std::conj(a.at(b, i, j)) * x[as_size(i)];
        dot *= widen(tau[as_size(b * k + j)]);
        x[as_size(j)] -= dot;
        for (int i = j + 1; i < rows; ++i) x[as_size(i)] -= a.at(b, i, j) * dot;
      }
      double norm = 0.0;  // scaled: squares may overflow
      const double largest = std::max(largest_of(given, b, c, 1), 1e-300);
      for (int i = 0; i < rows; ++i) norm += std::norm(given.at(b, i, c) / largest);
      const double limit = kUnits * std::max(rows, cols) * epsilon<T>() * std::sqrt(norm) * largest;
      for (int i = 0; i < rows; ++i)
        ASSERT_LE(std::abs(x[as_size(i)] - given.at(b, i, c)), limit)
            << "kind " << static_cast<int>(kind) << ", column " << c;
    }
}

TEST(LinalgKinds, QrColumnByColumn) {
  for (const Kind kind : kKinds) {
    check_qr<float>(kind, 17, 17);
    check_qr<double>(kind, 12, 7);
    check_qr<complex64>(kind, 5, 5);
    check_qr<complex128>(kind, 7, 9);
  }
}

template <class T>
void check_cholesky(Kind kind, int n) {
  // D (G + I) D with the scales of the kind: every element of the residual is small beside the
  // diagonal's geometric mean.
  const Stack<T> scales = stack_of<T>(kind, 1, n, n, 13);
  Stack<T> a = gram_of(random_stack<T>(1, n, n, 14), 1.0);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      const double di = std::sqrt(std::abs(scales.at(0, i, i)) + 1e-30);
      const double dj = std::sqrt(std::abs(scales.at(0, j, j)) + 1e-30);
      a.set(0, i, j, a.at(0, i, j) * di * dj);
    }
  const Stack<T> given = a;
  std::vector<int> status(1);
  const CholeskyArgs args{a.args(), status.data(), n, 0};
  host_cuda::launch(1, kLinalgThreads, [&] { cholesky_leaf<T>(args); });
  EXPECT_EQ(status[0], 0);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) {
      Wide rest = given.at(0, i, j);
      for (int k = 0; k <= j; ++k) rest -= a.at(0, i, k) * std::conj(a.at(0, j, k));
      const double scale =
          std::sqrt(std::abs(given.at(0, i, i))) * std::sqrt(std::abs(given.at(0, j, j)));
      ASSERT_LE(std::abs(rest), kUnits * n * epsilon<T>() * scale)
          << "kind " << static_cast<int>(kind) << ": " << i << ", " << j;
    }
}

TEST(LinalgKinds, CholeskyElementByElement) {
  for (const Kind kind : kKinds) {
    check_cholesky<float>(kind, 17);
    check_cholesky<double>(kind, 9);
    check_cholesky<complex64>(kind, 12);
    check_cholesky<complex128>(kind, 7);
  }
}

// The norm of a row after many rotations by angles of all sizes: errors of single rotations must
// not add up. What block Jacobi does to a matrix in its sweeps is thousands of them.
template <class T>
void check_rotations(unsigned seed) {
  using R = RealOf<T>;
  threadIdx = {0, 0, 0};  // no launch: one row, one pair
  constexpr int kRotations = 20000;
  std::mt19937 bits(seed);
  std::normal_distribution<double> draw;
  std::uniform_real_distribution<double> power(sizeof(R) == 4 ? -6.0 : -14.0, 0.0);
  Rotations<T> rotations;
  Stack<T> row(1, 1, 2);
  row.set(0, 0, 0, 0.6);
  row.set(0, 0, 1, 0.8);
  for (int i = 0; i < kRotations; ++i) {
    Stack<T> a(1, 2, 2);
    a.set(0, 0, 0, draw(bits));
    a.set(0, 1, 1, draw(bits));
    const double angle = 3.0 * draw(bits);
    const Wide element = std::polar(std::pow(10.0, power(bits)), angle);
    a.set(0, 0, 1, element);
    a.set(0, 1, 0, std::conj(element));
    if (make_rotation(Matrix<T>(a.args(), 0), 2, 2, 0, 0, R(0), rotations))
      rotate_columns(Matrix<T>(row.args(), 0), 1, 1, rotations);
  }
  const double norm = std::norm(row.at(0, 0, 0)) + std::norm(row.at(0, 0, 1));
  EXPECT_NEAR(norm, 1.0, 3.0 * std::sqrt(kRotations) * epsilon<T>());
}

TEST(LinalgKinds, EighRotationsKeepNorms) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    check_rotations<float>(seed);
    check_rotations<double>(seed);
    check_rotations<complex64>(seed);
    check_rotations<complex128>(seed);
  }
}

// Residuals of the eigenvalues and eigenvectors of a matrix with the contents of `kind`, scaled as
// the kernel expects it.
template <class T>
void check_eigh(Kind kind, int n) {
  Stack<T> a = stack_of<T>(kind, 1, n, n, 17);
  const double scale = std::exp2(std::floor(std::log2(largest_of(a, 0, 0, n))));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) {
      const Wide x = (a.at(0, i, j) / scale + std::conj(a.at(0, j, i)) / scale) / 2.0;
      a.set(0, i, j, i == j ? x.real() : x);
      a.set(0, j, i, i == j ? x.real() : std::conj(x));
    }
  Stack<T> v(1, n, n);
  std::vector<RealOf<T>> w(as_size(n));
  RealOf<T> off{};
  int status = 0;
  EighArgs args{};
  args.a = a.args();
  args.v = v.args();
  args.w = w.data();
  args.off = &off;
  args.status = &status;
  args.w_batch = n;
  args.n = n;
  host_cuda::launch(1, kLinalgThreads, [&] { eigh_leaf<T>(args); });
  EXPECT_EQ(status, 0);
  const double limit = 2.0 * n * epsilon<T>();  // a fifth of a whole block Jacobi's
  for (int j = 0; j < n; ++j) {
    double residual = 0.0;
    for (int i = 0; i < n; ++i) {
      Wide rest = -static_cast<double>(w[as_size(j)]) * v.at(0, i, j);
      Wide dot = i == j ? -1.0 : 0.0;
      for (int k = 0; k < n; ++k) {
        rest += a.at(0, i, k) * v.at(0, k, j);
        dot += std::conj(v.at(0, k, i)) * v.at(0, k, j);
      }
      residual += std::norm(rest);
      ASSERT_LE(std::abs(dot), limit)
          << "kind " << static_cast<int>(kind) << ": " << i << ", " << j;
    }
    ASSERT_LE(std::sqrt(residual), limit * n) << "kind " << static_cast<int>(kind) << ": " << j;
  }
}

TEST(LinalgKinds, Eigh) {
  for (const Kind kind : kKinds) check_eigh<double>(kind, 6);
  check_eigh<complex64>(Kind::kSkewed, 5);
}

TEST(LinalgKinds, NonFiniteElementsEndInNan) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Stack<double> a = random_stack<double>(1, 5, 5, 15);
    a.set(0, 1, 0, value);
    Stack<double> lu = a;
    Stack<double> qr = a;
    std::vector<int> pivots(5);
    std::vector<int> status(1);
    LuArgs args{};
    args.a = lu.args();
    args.pivots = pivots.data();
    args.pivots_batch = 5;
    args.status = status.data();
    args.rows = args.cols = 5;
    host_cuda::launch(1, kThreads, [&] { lu_leaf<double, true>(args); });
    // An infinite pivot makes the rest of its column 0, as in LAPACK.
    EXPECT_TRUE(std::isnan(value) ? std::isnan(lu.at(0, 4, 4).real())
                                  : std::isinf(lu.at(0, 0, 0).real()));
    for (const int pivot : pivots) EXPECT_TRUE(0 <= pivot && pivot < 5);
    std::vector<double> tau(5);
    const QrArgs qr_args{qr.args(), tau.data(), 5, 5, 5};
    host_cuda::launch(1, kThreads, [&] { qr_leaf<double, true>(qr_args); });
    EXPECT_TRUE(std::isnan(qr.at(0, 4, 4).real()));
    Stack<double> spd = gram_of(random_stack<double>(1, 5, 5, 16), 1.0);
    spd.set(0, 2, 2, value);
    const CholeskyArgs cholesky{spd.args(), status.data(), 5, 0};
    status[0] = 0;
    host_cuda::launch(1, kLinalgThreads, [&] { cholesky_leaf<double>(cholesky); });
    EXPECT_EQ(status[0], std::isnan(value) ? 3 : 0);
  }
}

}  // namespace
}  // namespace gpk
