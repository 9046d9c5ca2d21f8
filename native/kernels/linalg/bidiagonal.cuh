// A panel of B = Q_u^H A Q_v (Golub and Kahan), B upper bidiagonal. It is the tridiagonalisation of
// [0, A^H; A, 0] in the order v_0, u_0, v_1, u_1, ...: of column j the space is v where j is even
// and u where it is odd, its reflector and all of V and W are in one space at a time, so each space
// has one matrix P of parts of V and W, and what is left is A - P_u P_v^H and its adjoint, two
// GEMMs. The tridiagonal matrix has a zero diagonal. Waits as in tridiagonal.cuh.
#pragma once

#include "linalg/reflectors.cuh"

namespace gpk {

// As a reflector sees it.
template <class T>
struct BidiagonalSide {
  Matrix<T> a, panel, reflectors;
  T* tau;

  __device__ __forceinline__ BidiagonalSide(const BidiagonalSpace& space, long long tau_batch)
      : a(space.a, blockIdx.y),
        panel(space.panel, blockIdx.y),
        reflectors(space.reflectors, blockIdx.y),
        tau(static_cast<T*>(space.tau) + blockIdx.y * tau_batch) {}
};

template <class T>
struct BidiagonalPanel : ReflectorPanel<T> {
  using Base = ReflectorPanel<T>;
  using Side = BidiagonalSide<T>;
  using N = Number<T>;
  using R = RealOf<T>;
  using Base::block, Base::blocks, Base::column, Base::kWarps, Base::lane, Base::n, Base::product,
      Base::shared, Base::thread, Base::v, Base::warp;

  const BidiagonalArgs& args;

  __device__ __forceinline__ BidiagonalPanel(const BidiagonalArgs& given,
                                             ReflectorShared<T>& memory)
      : Base(given.exchange, given.n, memory), args(given) {}

  // The lane's two columns of a row of P, of the first k.
  struct Pair {
    T low, high;
  };
  __device__ __forceinline__ Pair row_of(const Matrix<T>& p, int r, int k) const {
    Pair pair{N::of(R(0)), N::of(R(0))};
    if (lane < k) pair.low = p(r, lane);
    if (lane + 32 < k) pair.high = p(r, lane + 32);
    return pair;
  }

  // Column `at` of the rest of side.a.
  __device__ __forceinline__ void update_column(const Side& side, const Side& other, int k, int at,
                                                int target) {
    Pair x = row_of(other.panel, at, k);
    x = {N::conj(x.low), N::conj(x.high)};
    for (int r = this->first_row(target) + warp * blocks; r < n; r += kWarps * blocks) {
      const T element = side.a(r, at);
      const Pair p = row_of(side.panel, r, k);
      const T sum = sum_lanes(p.low * x.low + p.high * x.high);
      if (lane == 0) column[r] = element - sum;
    }
  }

  __device__ __forceinline__ void reflect(const Side& side, int k, int target) {
    const R beta = this->make_reflector(target);
    const int j = args.first + k;
    if (block == 0 && thread == 0) {
      static_cast<R*>(args.bands)[4ll * blockIdx.y * n + 2ll * n + j] = beta;
      side.tau[k / 2] = shared.tau;
    }
    for (int r = this->first_row(target) + thread * blocks; r < n;
         r += kReflectorThreads * blocks) {
      side.panel(r, k) = v[r];
      side.reflectors(r, k / 2) = v[r];
    }
  }

  // A v in the other space, and the block's parts of P^H v.
  __device__ __forceinline__ void multiply(const Side& side, const Side& other, int k, int target,
                                           int first) {
    for (int r = this->first_row(first) + warp * blocks; r < n; r += kWarps * blocks) {
      const T sum = this->times_v(&other.a(r, 0), target);
      if (lane == 0) product[r] = sum;
    }
    this->publish_dots(side.panel, this->col() < k, target);
  }

  // W: tau (A v - P P^H v), in the other space.
  __device__ __forceinline__ void finish(const Side& other, int k, int first) {
    const int step = kWarps * blocks;
    int r = this->first_row(first) + warp * blocks;
    Pair mine = row_of(other.panel, min(r, n - 1), r < n ? k : 0);  // before the block's wait
    this->gather(this->col() < k);
    T x = N::of(R(0));
    T y = N::of(R(0));
    if (lane < k) x = shared.sums[lane];
    if (lane + 32 < k) y = shared.sums[lane + 32];
    for (; r < n; r += step) {
      const T w = shared.tau * (product[r] - sum_lanes(mine.low * x + mine.high * y));
      if (lane == 0) other.panel(r, k) = w;
      if (r + step < n) mine = row_of(other.panel, r + step, k);
    }
    __syncwarp();  // update_column() reads them
  }
};

template <class T>
__global__ __launch_bounds__(kReflectorThreads,
                             1) void bidiagonal_panel(const __grid_constant__ BidiagonalArgs args) {
  __shared__ ReflectorShared<T> shared;
  BidiagonalPanel<T> panel(args, shared);
  for (int k = 0; k < args.cols; ++k) {
    const int j = args.first + k;
    const bool odd = j % 2 == 1;
    const BidiagonalSide<T> side(odd ? args.v : args.u, args.tau_batch);
    const BidiagonalSide<T> other(odd ? args.u : args.v, args.tau_batch);
    const int target = (j + 1) / 2;  // of the column, what becomes beta
    const int first = (j + 2) / 2;   // row of the other space
    panel.update_column(side, other, k, j / 2, target);
    panel.sync();
    panel.reflect(side, k, target);
    panel.multiply(side, other, k, target, first);
    panel.sync();
    panel.finish(other, k, first);
  }
}

}  // namespace gpk
