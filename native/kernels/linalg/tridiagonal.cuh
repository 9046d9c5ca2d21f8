// A panel of T = Q^H A Q (LAPACK's latrd): columns [first, first + cols) of a Hermitian matrix are
// reduced by reflectors; what is left is A - V W^H - W V^H, a GEMM. Blocks wait for each other
// twice a column: for the column, and for A v with each block's parts of V^H v and W^H v.
#pragma once

#include "linalg/reflectors.cuh"

namespace gpk {

template <class T>
struct TridiagonalPanel : ReflectorPanel<T> {
  using Base = ReflectorPanel<T>;
  using N = Number<T>;
  using R = RealOf<T>;
  using Base::block, Base::blocks, Base::column, Base::kWarps, Base::lane, Base::n, Base::parts,
      Base::product, Base::shared, Base::thread, Base::v, Base::warp;
  static constexpr int kPanel = kLinalgPanel;

  const TridiagonalArgs& args;
  Matrix<T> a, vw, wv;
  T next;  // of W, in every lane: the next column's row, which another block may have

  __device__ __forceinline__ TridiagonalPanel(const TridiagonalArgs& given,
                                              ReflectorShared<T>& memory)
      : Base(given.exchange, given.n, memory),
        args(given),
        a(given.a, blockIdx.y),
        vw(given.vw, blockIdx.y),
        wv(given.wv, blockIdx.y),
        next(N::of(R(0))) {}

  // Column j of A - V W^H - W V^H, rows j and below.
  __device__ __forceinline__ void update_column(int k) {
    const int j = args.first + k;
    T x = N::of(R(0));  // row j of V
    T y = N::of(R(0));  // of W
    if (lane < k) {
      x = N::conj(vw(j, lane));
      y = N::conj(lane == k - 1 ? next : vw(j, kPanel + lane));
    }
    for (int r = this->first_row(j) + warp * blocks; r < n; r += kWarps * blocks) {
      const T element = a(r, j);
      T sum = N::of(R(0));
      if (lane < k) sum = vw(r, lane) * y + vw(r, kPanel + lane) * x;
      sum = sum_lanes(sum);
      if (lane == 0) column[r] = element - sum;
    }
  }

  __device__ __forceinline__ void reflect(int k) {
    const int j = args.first + k;
    const R beta = this->make_reflector(j + 1);
    if (block == 0 && thread == 0) {
      R* const bands = static_cast<R*>(args.bands) + 2ll * blockIdx.y * n;
      bands[j] = N::real(column[j]);
      bands[n + j] = beta;
      static_cast<T*>(args.tau)[blockIdx.y * args.tau_batch + k] = shared.tau;
    }
    for (int r = this->first_row(args.first) + thread * blocks; r < n;
         r += kReflectorThreads * blocks) {
      vw(r, k) = v[r];
      wv(r, kPanel + k) = v[r];
    }
  }

  // Columns of [V | W], and in place of the next of V: v^H A v.
  [[nodiscard]] __device__ __forceinline__ bool active(int k) const {
    return this->col() % kPanel < k || this->col() == k;
  }

  // A v, and of the block's rows V^H v, W^H v and v^H A v.
  __device__ __forceinline__ void multiply(int k) {
    const int j = args.first + k;
    T dot = N::of(R(0));
    for (int r = this->first_row(j + 1) + warp * blocks; r < n; r += kWarps * blocks) {
      const T sum = this->times_v(&a(r, 0), j + 1);
      if (lane == 0) product[r] = sum;
      dot = dot + N::conj(v[r]) * sum;
    }
    if (lane == 0) shared.dots[warp] = dot;
    this->publish_dots(vw, this->col() % kPanel < k, j + 1);
    if (thread != k) return;
    T total = N::of(R(0));
    for (int w = 0; w < kWarps; ++w) total = total + shared.dots[w];
    parts[block * Base::kCols + k] = total;
  }

  struct RowOperands {
    T v, w, product;  // of V and W: the lane's column
  };
  __device__ __forceinline__ RowOperands operands(int r, int k) const {
    RowOperands of{N::of(R(0)), N::of(R(0)), product[r]};
    if (lane < k) {
      of.v = vw(r, lane);
      of.w = vw(r, kPanel + lane);
    }
    return of;
  }

  // W: tau p - |tau|^2 / 2 (v^H p) v, with p = (A - V W^H - W V^H) v.
  __device__ __forceinline__ void finish(int k) {
    const int j = args.first + k;
    const int step = kWarps * blocks;
    int r = this->first_row(j + 1) + warp * blocks;
    const RowOperands of_next = operands(j + 1, k);  // loaded before the block's wait
    RowOperands mine = operands(min(r, n - 1), k);
    this->gather(active(k));
    T x = N::of(R(0));  // V^H v
    T y = N::of(R(0));  // W^H v
    if (lane < k) {
      x = shared.sums[lane];
      y = shared.sums[kPanel + lane];
    }
    const R both = sum_lanes(R(2) * N::real(N::conj(x) * y));
    const T tau = shared.tau;
    const R alpha = R(-0.5) * N::real(N::conj(tau) * tau) * (N::real(shared.sums[k]) - both);
    const auto element = [&](const RowOperands& of, int row) {
      return tau * (of.product - sum_lanes(of.v * y + of.w * x)) + N::scale(v[row], alpha);
    };
    next = element(of_next, j + 1);
    for (; r < n; r += step) {
      const T w = element(mine, r);
      if (lane == 0) {
        vw(r, kPanel + k) = w;
        wv(r, k) = w;
      }
      mine = operands(min(r + step, n - 1), k);
    }
    __syncwarp();  // update_column() reads them
  }
};

template <class T>
__global__ __launch_bounds__(kReflectorThreads, 1) void tridiagonal_panel(
    const __grid_constant__ TridiagonalArgs args) {
  __shared__ ReflectorShared<T> shared;
  TridiagonalPanel<T> panel(args, shared);
  for (int k = 0; k < args.cols; ++k) {
    panel.update_column(k);
    panel.sync();
    panel.reflect(k);
    panel.multiply(k);
    panel.sync();
    panel.finish(k);
  }
}

}  // namespace gpk
