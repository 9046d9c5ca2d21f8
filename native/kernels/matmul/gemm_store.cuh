// From a warp's accumulators to C: 16 rows at a time go to shared memory, where the epilogue
// (run-time flags: one kernel for all) is applied in place, and from where they are stored in wide,
// coalesced lines. Rows come in the order of the kernel's registers: Rows::row(block, half, g) is
// the warp's row held in row 8 half + g of block `block`. Residuals are added at the store.
#pragma once

#include "common/vec.cuh"
#include "matmul/epilogue.cuh"
#include "matmul/gemm_grid.cuh"

namespace gpk {

__device__ __forceinline__ float activate(unsigned activation, float x) {
  if (activation == kActivationRelu) return activate<kActivationRelu>(x);
  if (activation == kActivationGelu) return activate<kActivationGelu>(x);
  if (activation == kActivationSilu) return activate<kActivationSilu>(x);
  if (activation == kActivationGeluErf) return activate<kActivationGeluErf>(x);
  return x;
}

// T: element type of the target. kFinal: it is C; otherwise raw accumulators are stored. Integer
// accumulators have no epilogue.
template <class T, class Acc, int kWarpN, class Rows, bool kFinal>
struct WarpStore {
  static constexpr int kPitch = kWarpN + 8;  // of a row in shared memory, in accumulators
  static constexpr bool kEpilogue = kFinal && kIsSame<Acc, float>;
  static constexpr int kVec = 16 / static_cast<int>(sizeof(T));
  static constexpr int kLanes = kWarpN / kVec;  // per row
  static_assert(kLanes <= 32, "a warp stores whole rows");

  const TileTarget<T>& target;
  const EpilogueArgs& epilogue;
  const TileGrid& grid;
  unsigned flags;                     // of the epilogue
  long long first_m, first_n, batch;  // of the tile
  int warp_m, warp_n;                 // of the warp, in the tile

  __device__ __forceinline__ int row_of(int block, int slot) const {
    return warp_m + Rows::row(block, slot / 8, slot % 8);
  }

  // The epilogue except the residual, on 16 rows in place.
  __device__ __forceinline__ void change(Acc* out, int block) const {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) & 31; i < 16 * kWarpN; i += 32) {
      const int slot = i / kWarpN;
      const int row = row_of(block, slot);
      const int col = warp_n + i % kWarpN;
      if (row >= target.rows || col >= target.cols) continue;
      const long long m = first_m + row;
      const long long n = first_n + col;
      const long long j = grid.swapped != 0 ? m : n;
      float v = out[slot * kPitch + i % kWarpN];
      if ((flags & kEpilogueScales) != 0) {
        v *= combined_scale(epilogue, grid.swapped != 0 ? n : m, j);
      } else if ((flags & kEpilogueAlpha) != 0) {
        v *= epilogue.alpha;
      }
      if ((flags & kEpilogueBias) != 0)
        v += to_compute(static_cast<const T*>(epilogue.bias)[j * epilogue.bias_step]);
      out[slot * kPitch + i % kWarpN] = activate(flags >> kEpilogueActivationShift, v);
    }
    __syncwarp();
  }

  __device__ __forceinline__ const T* residual(int row, int col) const {
    const long long m = first_m + row;
    const long long n = first_n + col;
    return static_cast<const T*>(epilogue.residual) + batch * epilogue.residual_batch +
           (grid.swapped != 0 ? n : m) * epilogue.residual_m +
           (grid.swapped != 0 ? m : n) * epilogue.residual_n;
  }

  __device__ __forceinline__ void narrow(const Acc* out, int block, bool add) const {
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x) & 31; i < 16 * kWarpN; i += 32) {
      const int slot = i / kWarpN;
      const int row = row_of(block, slot);
      const int col = warp_n + i % kWarpN;
      if (row >= target.rows || col >= target.cols) continue;
      Acc v = out[slot * kPitch + i % kWarpN];
      if constexpr (kEpilogue)
        if (add) v += epilogue.beta * to_compute(*residual(row, col));
      target.first[row * target.row_step + col * target.col_step] = from_compute<T>(v);
    }
  }

  __device__ __forceinline__ void wide(const Acc* out, int block, bool add) const {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int col = warp_n + lane % kLanes * kVec;
#pragma unroll 2
    for (int first = 0; first < 16; first += 32 / kLanes) {
      const int slot = first + lane / kLanes;
      const int row = row_of(block, slot);
      if (row >= target.rows || col >= target.cols) continue;
      const Acc* const from = out + slot * kPitch + lane % kLanes * kVec;
      T* const to = target.first + row * target.row_step + col;
      Vec<T, kVec> v, more;
      if constexpr (kEpilogue)
        if (add) more = load_vec<T, kVec>(residual(row, col));
#pragma unroll
      for (int e = 0; e < kVec; e += 4) {
        const Vec<Acc, 4> part = load_vec<Acc, 4>(from + e);
#pragma unroll
        for (int f = 0; f < 4; ++f) {
          Acc x = part.v[f];
          if constexpr (kEpilogue)
            if (add) x += epilogue.beta * to_compute(more.v[e + f]);
          v.v[e + f] = from_compute<T>(x);
        }
      }
      if (col + kVec <= target.cols) {
        store_vec<T, kVec>(to, v);
      } else {
#pragma unroll
        for (int e = 0; e < kVec; ++e)
          if (col + e < target.cols) to[e] = v.v[e];
      }
    }
  }

  // The residual has C's layout, in aligned vectors that are all in range.
  __device__ __forceinline__ bool residual_is_wide() const {
    const unsigned long long steps =
        static_cast<unsigned long long>(epilogue.residual_m | epilogue.residual_batch) * sizeof(T);
    return grid.swapped == 0 && epilogue.residual_n == 1 && target.cols % kVec == 0 &&
           ((reinterpret_cast<unsigned long long>(epilogue.residual) | steps) & 15) == 0;
  }

  // `out` holds block `block`.
  __device__ __forceinline__ void run(Acc* out, int block) const {
    bool add = false;
    bool is_wide = target.wide;
    if constexpr (kEpilogue) {
      if ((flags & ~kEpilogueResidual) != 0) change(out, block);
      add = (flags & kEpilogueResidual) != 0;
      if (add) is_wide = is_wide && residual_is_wide();
    }
    if (is_wide) {
      wide(out, block, add);
    } else {
      narrow(out, block, add);
    }
  }
};

}  // namespace gpk
