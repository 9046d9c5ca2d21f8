// The kernels of native/kernels/linalg on the host: residuals in float64, orders around warps.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include "linalg/cholesky.cuh"
#include "linalg/eigh.cuh"
#include "linalg/lu.cuh"
#include "linalg/lu_cluster.cuh"
#include "linalg/lu_panel.cuh"
#include "linalg/qr.cuh"
#include "linalg/qr_panel.cuh"
#include "linalg/swap_rows.cuh"
#include "linalg/triangular.cuh"
#include "linalg_problem.h"

namespace gpk {
namespace {

using namespace linalg_test;

template <class T>
void check_cholesky(int n) {
  Stack<T> a = gram_of(random_stack<T>(2, n, n, 1), 0.5);
  const Stack<T> given = a;
  std::vector<int> status(2);
  const CholeskyArgs args{a.args(), status.data(), n, 100};
  host_cuda::launch(2, kLinalgThreads, [&] { cholesky_leaf<T>(args); });
  EXPECT_EQ(status, std::vector<int>(2));
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j <= i; ++j) {
        Wide sum = given.at(b, i, j);
        for (int k = 0; k <= j; ++k) sum -= a.at(b, i, k) * std::conj(a.at(b, j, k));
        ASSERT_LE(std::abs(sum), 10 * n * epsilon<T>()) << i << ", " << j;
      }
      for (int j = i + 1; j < n; ++j) ASSERT_EQ(a.at(b, i, j), given.at(b, i, j));  // not written
    }
}

TEST(Linalg, Cholesky) {
  for (const int n : {1, 2, 33}) check_cholesky<float>(n);
  check_cholesky<double>(64);
  check_cholesky<complex64>(17);
  check_cholesky<complex128>(33);
}

TEST(Linalg, CholeskyReportsTheFirstBadPivot) {
  Stack<double> a = gram_of(random_stack<double>(2, 5, 5, 1), 0.5);
  a.set(1, 3, 3, -1.0);
  std::vector<int> status(2);
  const CholeskyArgs args{a.args(), status.data(), 5, 100};
  host_cuda::launch(2, kLinalgThreads, [&] { cholesky_leaf<double>(args); });
  EXPECT_EQ(status, (std::vector<int>{0, 104}));
  status = {7, 7};
  host_cuda::launch(2, kLinalgThreads, [&] { cholesky_leaf<double>(args); });
  EXPECT_EQ(status[1], 7);  // the first report stays
}

// Lower, or upper by negative strides; plain, or conjugate.
template <class T>
void check_triangular(int n, int cols, bool upper, bool unit, bool conjugate) {
  Stack<T> t = random_stack<T>(2, n, n, 2);
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) t.set(b, i, j, t.at(b, i, j) / static_cast<double>(n));
      t.set(b, i, i, 1.0 + t.at(b, i, i));
    }
  Stack<T> x = random_stack<T>(2, n, cols, 3);
  const Stack<T> b = x;
  TriangularArgs args{};
  args.t = t.args();
  args.b = x.args();
  if (upper) {
    args.t.data = t.data.data() + n * n - 1;
    args.t.row = -n;
    args.t.col = -1;
    args.b.data = x.data.data() + (n - 1) * cols;
    args.b.row = -cols;
  }
  args.cols = cols;
  args.n = n;
  args.unit = unit ? 1 : 0;
  args.conjugate = conjugate ? 1 : 0;
  const auto tiles = static_cast<unsigned>((cols + kTriangularCols - 1) / kTriangularCols);
  host_cuda::launch(2 * tiles, kLinalgThreads, [&] { triangular_leaf<T>(args); });
  for (int m = 0; m < 2; ++m)
    for (int i = 0; i < n; ++i)
      for (int c = 0; c < cols; ++c) {
        Wide rest = b.at(m, i, c);
        double size = std::abs(rest);
        for (int k = upper ? i : 0; k <= (upper ? n - 1 : i); ++k) {
          const Wide element = unit && k == i ? Wide(1.0) : t.at(m, i, k);
          const Wide term = (conjugate ? std::conj(element) : element) * x.at(m, k, c);
          rest -= term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(rest), 10 * n * epsilon<T>() * size);
      }
}

TEST(Linalg, Triangular) {
  check_triangular<float>(1, 1, false, false, false);
  check_triangular<float>(33, 33, false, true, false);
  check_triangular<double>(64, 3, true, false, false);
  check_triangular<complex64>(5, 40, true, true, true);
  check_triangular<complex128>(31, 32, false, false, true);
  check_triangular<float>(100, 2, false, false, false);  // several tiles of T
}

template <class T, bool kShared>
void check_lu(int rows, int cols) {
  Stack<T> a = random_stack<T>(2, rows, cols, 4);
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
  args.first = 10;
  host_cuda::launch(2, 128, [&] { lu_leaf<T, kShared>(args); });
  EXPECT_EQ(status, std::vector<int>(2));
  Stack<T> swapped = given;
  const int line = kSwapLineBytes / static_cast<int>(sizeof(T));
  const auto tiles = static_cast<unsigned>((cols + line - 1) / line);
  SwapRowsArgs swap{};
  swap.a = swapped.args();
  swap.pivots = pivots.data();
  swap.pivots_batch = k;
  swap.cols = cols;
  swap.count = k;
  swap.first = 10;
  swap.rows = rows;
  host_cuda::launch(2 * tiles, kLinalgThreads, [&] { swap_rows<T>(swap); });
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        Wide rest = swapped.at(b, i, j);
        for (int l = 0; l <= std::min({i, j, k - 1}); ++l)
          rest -= (l == i ? Wide(1.0) : a.at(b, i, l)) * a.at(b, l, j);
        ASSERT_LE(std::abs(rest), 50 * k * epsilon<T>()) << i << ", " << j;
        if (j < i && j < k) {
          ASSERT_LE(std::abs(a.at(b, i, j)), 1.5);  // pivoted by |re| + |im|
        }
      }
  swap.backward = 1;
  host_cuda::launch(2 * tiles, kLinalgThreads, [&] { swap_rows<T>(swap); });
  EXPECT_EQ(0, std::memcmp(swapped.data.data(), given.data.data(), given.data.size() * sizeof(T)));
}

TEST(Linalg, Lu) {
  check_lu<float, true>(1, 1);
  check_lu<float, true>(33, 33);
  check_lu<float, false>(40, 8);
  check_lu<double, true>(7, 12);
  check_lu<double, false>(5, 3);
  check_lu<complex64, true>(17, 17);
  check_lu<complex128, false>(33, 5);
}

// What lu_leaf gives, but for roundings.
template <class T>
void check_lu_panel(int rows, int cols, int blocks, bool cluster = false) {
  Stack<T> a = random_stack<T>(2, rows, cols, 4);
  Stack<T> want = a;
  std::vector<int> pivots(as_size(2 * cols));
  std::vector<int> want_pivots(as_size(2 * cols));
  std::vector<int> status(2);
  std::vector<unsigned long long> exchange(as_size(2 * kPanelSlotWords));
  LuPanelArgs args{};
  args.a = a.args();
  args.pivots = pivots.data();
  args.pivots_batch = cols;
  args.status = status.data();
  args.exchange = exchange.data();
  args.rows = rows;
  args.cols = cols;
  args.rows_per_block = (rows + blocks - 1) / blocks;
  args.first = 10;
  const auto grid = static_cast<unsigned>(blocks);
  for (args.first_matrix = 0; args.first_matrix < 2; ++args.first_matrix) {
    if (cluster) {
      host_cuda::launch_clusters(grid, grid, kPanelThreads, [&] { lu_cluster<T>(args); });
    } else {
      host_cuda::launch_together(Dim3{grid, 1, 1}, kPanelThreads, [&] { lu_panel<T>(args); });
    }
  }
  LuArgs leaf{};
  leaf.a = want.args();
  leaf.pivots = want_pivots.data();
  leaf.pivots_batch = cols;
  leaf.status = status.data();
  leaf.rows = rows;
  leaf.cols = cols;
  leaf.first = 10;
  host_cuda::launch(2, 128, [&] { lu_leaf<T, false>(leaf); });
  EXPECT_EQ(status, std::vector<int>(2));
  EXPECT_EQ(pivots, want_pivots);
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j)
        ASSERT_LE(std::abs(a.at(b, i, j) - want.at(b, i, j)), 100 * epsilon<T>()) << i << ", " << j;
}

TEST(Linalg, LuPanel) {
  check_lu_panel<float>(20, 4, 1);
  check_lu_panel<float>(37, 3, 3);
  check_lu_panel<double>(9, 2, 2);
  check_lu_panel<complex128>(12, 2, 2);
}

TEST(Linalg, LuCluster) {
  check_lu_panel<float>(30, 3, 3, true);
  check_lu_panel<complex128>(12, 2, 2, true);
}

// More swaps than are traced at a time.
TEST(Linalg, SwapRowsInChunks) {
  constexpr int kRows = kSwapRows + 40;
  Stack<double> a = random_stack<double>(1, kRows, 3, 8);
  const Stack<double> given = a;
  Stack<double> want = a;
  std::vector<int> pivots;
  for (int i = 0; i < kRows; ++i) pivots.push_back(10 + i + (i * 37) % (kRows - i));
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 3; ++j)
      std::swap(want.data[as_size(i * 3 + j)],
                want.data[as_size((pivots[as_size(i)] - 10) * 3 + j)]);
  SwapRowsArgs args{};
  args.a = a.args();
  args.pivots = pivots.data();
  args.cols = 3;
  args.count = kRows;
  args.first = 10;
  args.rows = kRows;
  host_cuda::launch(1, kLinalgThreads, [&] { swap_rows<double>(args); });
  EXPECT_EQ(a.data, want.data);
  args.backward = 1;
  host_cuda::launch(1, kLinalgThreads, [&] { swap_rows<double>(args); });
  EXPECT_EQ(a.data, given.data);
}

TEST(Linalg, LuReportsAColumnOfZeros) {
  Stack<float> a = random_stack<float>(1, 4, 4, 5);
  for (int i = 0; i < 4; ++i) a.set(0, i, 2, 2.0 * a.at(0, i, 0).real());  // rank 3, exactly
  std::vector<int> pivots(4);
  std::vector<int> status(1);
  LuArgs args{};
  args.a = a.args();
  args.pivots = pivots.data();
  args.pivots_batch = 4;
  args.status = status.data();
  args.rows = args.cols = 4;
  host_cuda::launch(1, 128, [&] { lu_leaf<float, true>(args); });
  EXPECT_EQ(status[0], 3);
}

// The panel's Q from its WY form, times R.
template <class T, bool kShared>
void check_qr(int rows, int cols, double scale) {
  Stack<T> a = random_stack<T>(2, rows, cols, 6);
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) a.set(b, i, j, a.at(b, i, j) * std::pow(scale, j));
  const Stack<T> given = a;
  const int k = std::min(rows, cols);
  std::vector<T> tau(as_size(2 * k));
  const QrArgs args{a.args(), tau.data(), k, rows, cols};
  host_cuda::launch(2, 128, [&] { qr_leaf<T, kShared>(args); });
  Stack<T> gram(2, k, k);
  Stack<T> t(2, k, k);
  const auto v = [&](int b, int i, int j) {
    return i == j ? Wide(1.0) : i > j ? a.at(b, i, j) : Wide(0.0);
  };
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < k; ++i)
      for (int j = 0; j < k; ++j) {
        Wide sum = 0.0;
        for (int r = 0; r < rows; ++r) sum += std::conj(v(b, r, i)) * v(b, r, j);
        gram.set(b, i, j, sum);
      }
  WyArgs wy{};
  wy.gram = gram.args();
  wy.t = t.args();
  wy.tau = tau.data();
  wy.tau_batch = k;
  wy.n = k;
  host_cuda::launch(2, kLinalgPanel, [&] { wy_leaf<T>(wy); });
  for (int b = 0; b < 2; ++b)
    for (int j = 0; j < cols; ++j) {
      // Q R[:, j] = R[:, j] - V T V^H R[:, j]
      const auto r = [&](int i) { return i <= j && i < k ? a.at(b, i, j) : Wide(0.0); };
      std::vector<Wide> inner(as_size(k));
      double size = 0.0;
      for (int p = 0; p < k; ++p)
        for (int i = 0; i < rows; ++i) inner[as_size(p)] += std::conj(v(b, i, p)) * r(i);
      for (int i = 0; i < rows; ++i) size += std::norm(given.at(b, i, j));
      for (int i = 0; i < rows; ++i) {
        Wide value = r(i);
        for (int p = 0; p < k; ++p)
          for (int q = p; q < k; ++q) value -= v(b, i, p) * t.at(b, p, q) * inner[as_size(q)];
        ASSERT_LE(std::abs(value - given.at(b, i, j)), 20 * k * epsilon<T>() * std::sqrt(size))
            << rows << " x " << cols << ": " << i << ", " << j;
      }
      for (int i = 1; i < k; ++i)
        for (int p = 0; p < i; ++p) ASSERT_EQ(t.at(b, i, p), Wide(0.0));
    }
}

TEST(Linalg, Qr) {
  check_qr<float, true>(1, 1, 1.0);
  check_qr<float, true>(34, 20, 1.0);
  check_qr<float, false>(40, 12, 0.01);  // squares of the last columns underflow
  check_qr<double, true>(3, 9, 1.0);
  check_qr<complex64, true>(9, 9, 10.0);
  check_qr<complex128, false>(40, 7, 1.0);
}

// I - V T V^H is unitary, and times R what was given.
template <class T>
void check_qr_panel(int rows, int cols, int blocks, double scale) {
  Stack<T> a = random_stack<T>(2, rows, cols, 6);
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) a.set(b, i, j, a.at(b, i, j) * std::pow(scale, j));
  const Stack<T> given = a;
  Stack<T> v(2, rows, cols);
  Stack<T> t(2, cols, cols);
  std::vector<unsigned long long> exchange(as_size(2 * kPanelSlotWords));
  QrPanelArgs args{};
  args.a = a.args();
  args.v = v.args();
  args.t = t.args();
  args.exchange = exchange.data();
  args.rows = rows;
  args.cols = cols;
  args.rows_per_block = (rows + blocks - 1) / blocks;
  const auto kernel = [&] { qr_panel<T>(args); };
  for (args.first_matrix = 0; args.first_matrix < 2; ++args.first_matrix)
    host_cuda::launch_together(Dim3{static_cast<unsigned>(blocks), 1, 1}, kPanelThreads, kernel);
  for (int b = 0; b < 2; ++b) {
    // (I - V T V^H) x
    const auto apply = [&](std::vector<Wide> x) {
      std::vector<Wide> inner(as_size(cols));
      for (int p = 0; p < cols; ++p)
        for (int i = 0; i < rows; ++i)
          inner[as_size(p)] += std::conj(v.at(b, i, p)) * x[as_size(i)];
      for (int i = 0; i < rows; ++i)
        for (int p = 0; p < cols; ++p)
          for (int q = 0; q < cols; ++q)
            x[as_size(i)] -= v.at(b, i, p) * t.at(b, p, q) * inner[as_size(q)];
      return x;
    };
    for (int i = 0; i < rows; ++i)
      for (int p = i; p < cols; ++p) ASSERT_EQ(v.at(b, i, p), Wide(i == p ? 1.0 : 0.0));
    for (int j = 0; j < cols; ++j) {
      std::vector<Wide> unit(as_size(rows));
      std::vector<Wide> r(as_size(rows));
      unit[as_size(j)] = 1.0;
      double size = 0.0;
      double length = 0.0;
      for (int i = 0; i <= j; ++i) r[as_size(i)] = a.at(b, i, j);
      const std::vector<Wide> again = apply(r);
      for (const Wide x : apply(unit)) length += std::norm(x);
      EXPECT_NEAR(length, 1.0, 20 * cols * epsilon<T>());
      for (int i = 0; i < rows; ++i) size += std::norm(given.at(b, i, j));
      for (int i = 0; i < rows; ++i)
        ASSERT_LE(std::abs(again[as_size(i)] - given.at(b, i, j)),
                  20 * cols * epsilon<T>() * std::sqrt(size))
            << rows << " x " << cols << ": " << i << ", " << j;
    }
  }
}

TEST(Linalg, QrPanel) {
  check_qr_panel<float>(40, 34, 1, 1.0);  // two columns of a lane
  check_qr_panel<float>(40, 4, 3, 1e-6);  // squares of the last columns underflow
  check_qr_panel<double>(9, 2, 2, 1.0);
  check_qr_panel<complex128>(12, 3, 2, 1e5);
}

template <class T>
void check_eigh(int n, bool relative, bool descending, double grade) {
  Stack<T> a = gram_of(random_stack<T>(2, n, n, 7), 0.01);
  double largest = 0.0;
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        a.set(b, i, j, a.at(b, i, j) * std::pow(grade, i + j));
        largest = std::max(largest, std::abs(a.at(b, i, j)));
      }
  using R = RealOf<T>;
  Stack<T> v(2, n, n);
  std::vector<R> w(as_size(2 * n));
  std::vector<R> off(2);
  std::vector<int> status(2);
  EighArgs args{};
  args.a = a.args();
  args.v = v.args();
  args.w = w.data();
  args.off = off.data();
  args.status = status.data();
  args.w_batch = n;
  args.n = n;
  args.relative = relative ? 1 : 0;
  args.descending = descending ? 1 : 0;
  host_cuda::launch(2, kLinalgThreads, [&] { eigh_leaf<T>(args); });
  EXPECT_EQ(status, std::vector<int>(2));
  const double tolerance = 10 * n * epsilon<T>();
  for (int b = 0; b < 2; ++b) {
    double seen = 0.0;
    for (int j = 0; j < n; ++j) {
      const double value = w[as_size(b * n + j)];
      if (j > 0) {
        const double before = w[as_size(b * n + j - 1)];
        ASSERT_TRUE(descending ? before >= value : before <= value);
      }
      double size = 0.0;
      for (int i = 0; i < n; ++i) {
        Wide rest = -value * v.at(b, i, j);
        Wide dot = i == j ? -1.0 : 0.0;
        for (int k = 0; k < n; ++k) {
          rest += a.at(b, i, k) * v.at(b, k, j);
          dot += std::conj(v.at(b, k, i)) * v.at(b, k, j);
        }
        size += std::norm(rest);
        ASSERT_LE(std::abs(dot), tolerance);
        if (i < j)
          seen = std::max(
              seen, std::abs(a.at(b, i, j)) /
                        (relative ? std::sqrt(std::abs(a.at(b, i, i) * a.at(b, j, j))) : 1.0));
      }
      ASSERT_LE(std::sqrt(size), tolerance * (relative ? largest : std::max(largest, 1.0)));
      if (relative) {
        ASSERT_GT(value, 0.0);  // positive definite: small ones keep their sign
      }
    }
    EXPECT_NEAR(off[as_size(b)], seen, 1e-5 * (1.0 + seen));
  }
}

TEST(Linalg, Eigh) {
  check_eigh<float>(1, false, false, 1.0);
  check_eigh<float>(2, false, true, 1.0);
  check_eigh<double>(9, false, false, 1.0);
  check_eigh<complex64>(12, false, false, 1.0);
  check_eigh<complex128>(7, false, true, 1.0);
}

TEST(Linalg, EighOfGradedGramMatrices) {
  check_eigh<float>(8, true, true, 0.1);  // eigenvalues over 14 orders of magnitude
  check_eigh<complex128>(6, true, false, 0.01);
}

}  // namespace
}  // namespace gpk
