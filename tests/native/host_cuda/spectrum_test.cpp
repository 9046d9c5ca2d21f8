// The kernels of tridiagonal.cuh, bidiagonal.cuh and divide.cuh on the host: Q T Q^H = A,
// Q_u B Q_v^H = A, and eigenvectors of a merge, judged in float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <algorithm>

#include "linalg/bidiagonal.cuh"
#include "linalg/divide.cuh"
#include "linalg/eigh.cuh"
#include "linalg/tridiagonal.cuh"
#include "linalg_problem.h"

namespace gpk {
namespace {

using namespace linalg_test;

using Dense = std::vector<std::vector<Wide>>;

Dense zeros(int n) { return Dense(as_size(n), std::vector<Wide>(as_size(n))); }

Dense times(const Dense& a, const Dense& b) {
  Dense c = zeros(static_cast<int>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < a.size(); ++k)
      for (std::size_t j = 0; j < a.size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Dense adjoint(const Dense& a) {
  Dense c = zeros(static_cast<int>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.size(); ++j) c[i][j] = std::conj(a[j][i]);
  return c;
}

double distance(const Dense& a, const Dense& b) {
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.size(); ++j) squares += std::norm(a[i][j] - b[i][j]);
  return std::sqrt(squares);
}

// I - tau v v^H with column k of v.
template <class T>
Dense reflector_of(const Stack<T>& v, int k, T tau) {
  Dense h = zeros(v.rows);
  for (int i = 0; i < v.rows; ++i)
    for (int j = 0; j < v.rows; ++j)
      h[as_size(i)][as_size(j)] =
          (i == j ? 1.0 : 0.0) - widen(tau) * v.at(0, i, k) * std::conj(v.at(0, j, k));
  return h;
}

// A Hermitian matrix of one panel, by one block: the kernel's shared memory is static, which blocks
// that run together would share here. Several blocks run in the simulator (tests/unit).
template <class T>
void check_tridiagonal(int n, bool shared) {
  const int pitch = (n + 3) / 4 * 4;
  const Stack<T> h = gram_of(random_stack<T>(1, n, n, 21), 0.0);
  Stack<T> a(1, n, pitch);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) a.set(0, i, j, h.at(0, i, j));
  Stack<T> vw(1, n, 2 * kLinalgPanel);
  Stack<T> wv(1, n, 2 * kLinalgPanel);
  std::vector<RealOf<T>> bands(as_size(2 * n));
  std::vector<T> tau(kLinalgPanel);
  std::vector<T> column(as_size(pitch));
  std::vector<T> product(as_size(pitch));
  std::vector<T> parts(2 * kLinalgPanel);
  std::vector<T> reflector(as_size(pitch));
  unsigned arrivals = 0;
  TridiagonalArgs args{};
  args.a = a.args();
  args.vw = vw.args();
  args.wv = wv.args();
  args.bands = bands.data();
  args.tau = tau.data();
  args.exchange = {column.data(),
                   product.data(),
                   &arrivals,
                   parts.data(),
                   shared ? nullptr : reflector.data(),
                   pitch,
                   0};
  args.n = n;
  args.cols = n - 1;
  host_cuda::launch(1, kReflectorThreads, [&] { tridiagonal_panel<T>(args); });
  Wide corner = a.at(0, n - 1, n - 1);
  for (int k = 0; k < n - 1; ++k)
    corner -= 2.0 * (vw.at(0, n - 1, k) * std::conj(vw.at(0, n - 1, kLinalgPanel + k))).real();
  Dense t = zeros(n);
  Dense q = zeros(n);
  Dense given = zeros(n);
  for (int i = 0; i < n; ++i) {
    const auto at = as_size(i);
    t[at][at] = i == n - 1 ? corner : Wide(bands[at]);
    if (i + 1 < n) t[at][at + 1] = t[at + 1][at] = bands[as_size(n + i)];
    q[at][at] = 1.0;
    for (int j = 0; j < n; ++j) {
      given[at][as_size(j)] = h.at(0, i, j);
      EXPECT_EQ(vw.at(0, i, std::min(j, n - 2)), wv.at(0, i, kLinalgPanel + std::min(j, n - 2)));
    }
  }
  for (int k = 0; k < n - 1; ++k) {
    Dense reflect = zeros(n);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        reflect[as_size(i)][as_size(j)] = (i == j ? 1.0 : 0.0) - widen(tau[as_size(k)]) *
                                                                     vw.at(0, i, k) *
                                                                     std::conj(vw.at(0, j, k));
    q = times(q, reflect);
  }
  const double limit = 10.0 * n * epsilon<T>() * distance(given, zeros(n));
  EXPECT_LE(distance(times(times(q, t), adjoint(q)), given), limit);
}

TEST(Spectrum, TridiagonalPanel) {
  check_tridiagonal<float>(9, true);
  check_tridiagonal<double>(6, false);
  check_tridiagonal<complex64>(5, true);
  check_tridiagonal<complex128>(2, true);
}

// A matrix of one panel.
template <class T>
void check_bidiagonal(int n) {
  const int pitch = (n + 3) / 4 * 4;
  const Stack<T> given = random_stack<T>(1, n, n, 22);
  Stack<T> a(1, n, pitch);
  Stack<T> adjoint_a(1, n, pitch);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      a.set(0, i, j, given.at(0, i, j));
      adjoint_a.set(0, j, i, std::conj(given.at(0, i, j)));
    }
  Stack<T> panel_u(1, n, 2 * kLinalgPanel);
  Stack<T> panel_v(1, n, 2 * kLinalgPanel);
  Stack<T> u(1, n, kLinalgPanel);
  Stack<T> v(1, n, kLinalgPanel);
  std::vector<T> tau_u(kLinalgPanel);
  std::vector<T> tau_v(kLinalgPanel);
  std::vector<RealOf<T>> bands(as_size(4 * n));
  std::vector<T> column(as_size(pitch));
  std::vector<T> product(as_size(pitch));
  std::vector<T> parts(2 * kLinalgPanel);
  unsigned arrivals = 0;
  BidiagonalArgs args{};
  args.u = {a.args(), panel_u.args(), u.args(), tau_u.data()};
  args.v = {adjoint_a.args(), panel_v.args(), v.args(), tau_v.data()};
  args.exchange = {column.data(), product.data(), &arrivals, parts.data(), nullptr, pitch, 0};
  args.bands = bands.data();
  args.n = n;
  args.cols = 2 * n - 1;
  host_cuda::launch(1, kReflectorThreads, [&] { bidiagonal_panel<T>(args); });
  Dense b = zeros(n);
  Dense q_u = zeros(n);
  Dense q_v = zeros(n);
  Dense want = zeros(n);
  for (int i = 0; i < n; ++i) {
    const auto at = as_size(i);
    b[at][at] = bands[as_size(2 * n + 2 * i)];
    if (i + 1 < n) b[at][at + 1] = bands[as_size(2 * n + 2 * i + 1)];
    q_u[at][at] = q_v[at][at] = 1.0;
    for (int j = 0; j < n; ++j) want[at][as_size(j)] = given.at(0, i, j);
  }
  for (int k = 0; k < n; ++k) {
    q_u = times(q_u, reflector_of(u, k, tau_u[as_size(k)]));
    q_v = times(q_v, reflector_of(v, k, tau_v[as_size(k)]));
  }
  EXPECT_LE(distance(times(times(q_u, b), adjoint(q_v)), want),
            10.0 * n * epsilon<T>() * distance(want, zeros(n)));
}

TEST(Spectrum, BidiagonalPanel) {
  check_bidiagonal<float>(5);
  check_bidiagonal<double>(4);
  check_bidiagonal<complex64>(3);
  check_bidiagonal<complex128>(1);
}

// One merge of a tridiagonal matrix with these bands: the diagonal, then what is below it.
template <class R>
void check_merge(const std::vector<double>& diagonal, const std::vector<double>& off, int roots) {
  const int n = static_cast<int>(diagonal.size());
  const int half = n / 2;
  std::vector<double> bands = diagonal;
  bands.insert(bands.end(), off.begin(), off.end());
  bands.push_back(0.0);
  Stack<R> leaves(2, half, half);
  const TearArgs tear{bands.data(), leaves.args(), 2LL * half * half, n, half};
  host_cuda::launch(static_cast<unsigned>((2 * half * half + kDivideThreads - 1) / kDivideThreads),
                    kDivideThreads, [&] { divide_tear<R>(tear); });
  Stack<R> q(2, half, half);
  std::vector<R> w(as_size(n));
  std::vector<R> largest(2);
  std::vector<int> status(2);
  EighArgs leaf{};
  leaf.a = leaves.args();
  leaf.v = q.args();
  leaf.w = w.data();
  leaf.off = largest.data();
  leaf.status = status.data();
  leaf.w_batch = half;
  leaf.n = half;
  host_cuda::launch(2, kLinalgThreads, [&] { eigh_leaf<R>(leaf); });
  std::vector<double> work(as_size(static_cast<int>(DivideField::kCount) * n));
  std::vector<int> links(as_size(static_cast<int>(DivideLink::kCount) * n));
  std::copy(w.begin(), w.end(), work.begin());  // kValue
  Stack<R> u(2, n, half);
  const DivideArgs args{work.data(), links.data(), bands.data() + n, q.args(), u.args(), n, half};
  const auto grid = static_cast<unsigned>((n + kDivideWarps - 1) / kDivideWarps);
  host_cuda::launch(1, kDivideThreads, [&] { divide_deflate<R>(args); });
  host_cuda::launch(grid, kDivideThreads, [&] { divide_roots(args); });
  host_cuda::launch(grid, kDivideThreads, [&] { divide_weights(args); });
  host_cuda::launch(grid, kDivideThreads, [&] { divide_vectors<R>(args); });
  EXPECT_EQ(links[as_size(static_cast<int>(DivideLink::kNumRoots) * n)], roots);
  Dense t = zeros(n);
  Dense v = zeros(n);
  Dense values = zeros(n);
  Dense one = zeros(n);
  for (int i = 0; i < n; ++i) {
    const auto at = as_size(i);
    t[at][at] = diagonal[at];
    if (i + 1 < n) t[at][at + 1] = t[at + 1][at] = off[at];
    values[at][at] = work[at];
    one[at][at] = 1.0;
    if (i > 0) {
      EXPECT_LE(work[at - 1], work[at]);
    }
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < half; ++k)
        v[at][as_size(j)] += q.at(i / half, i % half, k) * u.at(i / half, j, k);
  }
  const double limit = 10.0 * n * epsilon<R>();
  EXPECT_LE(distance(times(adjoint(v), v), one), limit);
  EXPECT_LE(distance(times(t, v), times(v, values)), limit * distance(t, zeros(n)));
}

TEST(Spectrum, Merge) {
  check_merge<double>({1.0, -0.5, 0.25, 1.5, -1.25, 0.75}, {0.5, 1.0, -0.75, 0.25, 1.0}, 6);
  check_merge<float>({1.0, 0.5, 0.25, 1.5}, {0.5, -1.0, 0.75}, 4);
}

TEST(Spectrum, MergeDeflates) {
  // Halves with equal eigenvalues: each pair is rotated into one.
  check_merge<double>({1.5, 1.0, 0.5, 0.5, 1.0, 1.5}, {0.5, 0.5, 0.25, 0.5, 0.5}, 3);
  check_merge<double>({1.0, 1.0, 1.0, 1.0}, {0.0, 0.0, 0.0}, 0);  // nothing joins them
  check_merge<float>({1.0, 1.0, 1.0, 1.0}, {0.0, 1.0, 0.0}, 1);
}

}  // namespace
}  // namespace gpk
