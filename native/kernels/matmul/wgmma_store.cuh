// From a warpgroup's accumulators (kRows = 64 * kReps rows by kWidth columns) to C: epilogue, then
// through shared memory, 64 rows by kChunk columns at a time, double buffered, and out by TMA
// stores that overlap with the caller's next work. Or element by element where C has other strides.
#pragma once

#include "common/dtype.cuh"
#include "common/tma.cuh"
#include "matmul/epilogue.cuh"

namespace gpk {

__device__ __forceinline__ constexpr int widest_of(int width, int most) {
  return width % most == 0 ? most : widest_of(width, most / 2);
}

template <class Acc, class Out, int kReps, int kWidth, int kStore, unsigned kEpilogue>
struct WgmmaEpilogue {
  static constexpr int kSize = static_cast<int>(sizeof(Out));
  static constexpr int kChunk = widest_of(kWidth, kStore == kStoreColumns ? 64 : 128 / kSize);
  static constexpr int kChunkBytes = 64 * kChunk * kSize;
  static constexpr int kPitch = kStore == kStoreColumns ? 128 : kChunk * kSize;
  static constexpr bool kScales = (kEpilogue & (kEpilogueAlpha | kEpilogueScales)) != 0;
  static constexpr bool kBias = (kEpilogue & kEpilogueBias) != 0;
  static constexpr bool kResidual = (kEpilogue & kEpilogueResidual) != 0;
  static_assert(kSize == 4 || kSize == 2);
  static_assert(kStore != kStoreColumns || kSize == 2);

  // Address of 16-byte chunk `chunk16` of a row, with the TMA swizzle for rows of kPitch bytes.
  static __device__ __forceinline__ unsigned swizzled(int row, int chunk16) {
    if constexpr (kPitch == 128) return row * 128 + ((chunk16 ^ (row & 7)) << 4);
    if constexpr (kPitch == 64) return row * 64 + ((chunk16 ^ (row >> 1 & 3)) << 4);
    if constexpr (kPitch == 32) return row * 32 + ((chunk16 ^ (row >> 2 & 1)) << 4);
    return row * kPitch + (chunk16 << 4);
  }

  static __device__ __forceinline__ unsigned pack(Acc low, Acc high) {
    const Out x = from_compute<Out>(low);
    const Out y = from_compute<Out>(high);
    return static_cast<unsigned>(y.bits) << 16 | x.bits;
  }

  // 16 bits: groups g and g + 1 of eight columns of a warp's sixteen rows are four 8x8 matrices.
  static __device__ __forceinline__ void stage_pair(const Acc* d, int g, unsigned buffer, int warp,
                                                    int lane) {
    const unsigned x0 = pack(d[0], d[1]);
    const unsigned x1 = pack(d[2], d[3]);
    const unsigned x2 = pack(d[4], d[5]);
    const unsigned x3 = pack(d[6], d[7]);
    const int half = lane >> 3 & 1;
    const int group = g + (lane >> 4);
    if constexpr (kStore == kStoreColumns) {
      const unsigned to = buffer + swizzled(group * 8 + (lane & 7), warp * 2 + half);
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
          "r"(x0), "r"(x1), "r"(x2), "r"(x3)
          : "memory");
    } else {
      const unsigned to = buffer + swizzled(warp * 16 + half * 8 + (lane & 7), group);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                   "r"(x0), "r"(x1), "r"(x2), "r"(x3)
                   : "memory");
    }
  }

  static __device__ __forceinline__ void stage_one(const Acc* d, unsigned buffer, int warp,
                                                   int lane) {
    const unsigned x0 = pack(d[0], d[1]);
    const unsigned x1 = pack(d[2], d[3]);
    const int half = lane >> 3 & 1;
    if constexpr (kStore == kStoreColumns) {
      const unsigned to = buffer + swizzled(lane & 7, warp * 2 + half);
      asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to),
                   "r"(x0), "r"(x1)
                   : "memory");
    } else {
      const unsigned to = buffer + swizzled(warp * 16 + half * 8 + (lane & 7), 0);
      asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(x0),
                   "r"(x1)
                   : "memory");
    }
  }

  static __device__ __forceinline__ void stage_wide(const Acc* d, int g, unsigned buffer, int warp,
                                                    int lane) {
    const int chunk16 = g * 2 + (lane & 3) / 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned to =
          buffer + swizzled(warp * 16 + half * 8 + (lane >> 2), chunk16) + (lane & 1) * 8;
      if constexpr (kIsSame<Acc, float>) {
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(d[half * 2]),
                     "f"(d[half * 2 + 1])
                     : "memory");
      } else {
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(d[half * 2]),
                     "r"(d[half * 2 + 1])
                     : "memory");
      }
    }
  }

  // Stages columns [first, first + kChunk) of the accumulators in the buffer.
  static __device__ __forceinline__ void stage(const Acc (&acc)[kWidth / 2], int first,
                                               unsigned buffer, int warp, int lane) {
    const Acc* const d = acc + first / 2;
    if constexpr (kSize == 4) {
#pragma unroll
      for (int g = 0; g < kChunk / 8; ++g) stage_wide(d + g * 4, g, buffer, warp, lane);
    } else if constexpr (kChunk == 8) {
      stage_one(d, buffer, warp, lane);
    } else {
#pragma unroll
      for (int g = 0; g < kChunk / 8; g += 2) stage_pair(d + g * 4, g, buffer, warp, lane);
    }
  }

  template <class T>
  static __device__ __forceinline__ T load_shared(unsigned address) {
    T x;
    if constexpr (sizeof(T) == 2) {
      unsigned short bits;
      asm volatile("ld.shared.b16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
      x = *reinterpret_cast<T*>(&bits);
    } else {
      unsigned bits;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
      x = *reinterpret_cast<T*>(&bits);
    }
    return x;
  }

  // From the buffer to C with arbitrary strides.
  static __device__ __forceinline__ void store_strided(const WgmmaTarget& target, unsigned buffer,
                                                       int row0, int col0, long long batch,
                                                       int thread) {
    Out* const c = static_cast<Out*>(target.c) + batch * target.c_batch;
    for (int e = thread; e < 64 * kChunk; e += 128) {
      // Coalesced along C's rows.
      const int row = target.transposed ? e % 64 : e / kChunk;
      const int col = target.transposed ? e / 64 : e % kChunk;
      const int byte = col * kSize;
      if (row0 + row < target.m && col0 + col < target.n)
        c[(row0 + row) * target.c_m + (col0 + col) * target.c_n] =
            load_shared<Out>(buffer + swizzled(row, byte >> 4) + (byte & 15));
    }
  }

  // scale_a (with alpha) or scale_b, and bias, of one row or column of the accumulators.
  struct Factors {
    float scale = 1.0f;
    float bias = 0.0f;
  };
  static __device__ __forceinline__ Factors factors_of(const EpilogueArgs& args, bool of_a,
                                                       long long at) {
    Factors found;
    if constexpr (kScales) found.scale = of_a ? args.alpha : 1.0f;
    if constexpr ((kEpilogue & kEpilogueScales) != 0) {
      const float* const scales = of_a ? args.scale_a : args.scale_b;
      if (scales != nullptr)
        found.scale *= scales[at * (of_a ? args.scale_a_step : args.scale_b_step)];
    }
    if constexpr (kBias) {
      if (!of_a) found.bias = to_compute(static_cast<const Out*>(args.bias)[at * args.bias_step]);
    }
    return found;
  }

  // Of a chunk's columns: distributed over the lanes of a warp, so that all are fetched at once.
  static constexpr int kHeld = (kChunk + 31) / 32;
  static __device__ __forceinline__ void fetch_column_factors(Factors (&across)[kHeld],
                                                              const EpilogueArgs& epilogue,
                                                              const WgmmaTarget& target,
                                                              int first_col, int lane) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j)
      across[j] = factors_of(epilogue, target.transposed != 0,
                             min(first_col + j * 32 + lane, target.n - 1));
  }

  // The epilogue of a thread's accumulators of a chunk: rows `row` and `row` + 8, two of eight
  // columns.
  static __device__ __forceinline__ void finish(Acc* sums, const Factors (&down)[2],
                                                const Factors (&across)[kHeld],
                                                const EpilogueArgs& epilogue,
                                                const WgmmaTarget& target, int row, int first_col,
                                                long long batch, int lane) {
    const int pair = (lane & 3) * 2;
    Out residuals[kChunk / 4][2];  // of two rows each
    if constexpr (kResidual) {     // all in flight at once
      const Out* const from =
          static_cast<const Out*>(epilogue.residual) + batch * epilogue.residual_batch;
      const long long row_step = target.transposed ? epilogue.residual_n : epilogue.residual_m;
      const long long col_step = target.transposed ? epilogue.residual_m : epilogue.residual_n;
#pragma unroll
      for (int e = 0; e < kChunk / 4; ++e)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          residuals[e][half] =
              from[min(row + half * 8, target.m - 1) * row_step +
                   min(first_col + e / 2 * 8 + pair + (e & 1), target.n - 1) * col_step];
    }
#pragma unroll
    for (int e = 0; e < kChunk / 4; ++e) {
      const int holder = e / 2 % 4 * 8 + pair + (e & 1);
      Factors column;
      if constexpr (kScales) column.scale = __shfl_sync(~0u, across[e / 8].scale, holder);
      if constexpr (kBias) column.bias = __shfl_sync(~0u, across[e / 8].bias, holder);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Acc& sum = sums[e / 2 * 4 + half * 2 + (e & 1)];
        float v = sum;
        if constexpr (kScales) v *= down[half].scale * column.scale;
        if constexpr (kBias) v += down[half].bias + column.bias;  // one of the two is 0
        v = activate<(kEpilogue >> kEpilogueActivationShift)>(v);
        if constexpr (kResidual) v += epilogue.beta * to_compute(residuals[e][half]);
        sum = v;
      }
    }
  }

  // `buffers`: two of kChunkBytes, private to this warpgroup; `barrier`: its own named barrier.
  static __device__ __forceinline__ void run(Acc (&acc)[kReps][kWidth / 2], const TensorMap& map,
                                             const WgmmaTarget& target,
                                             const EpilogueArgs& epilogue, int first_row,
                                             int first_col, int batch, unsigned buffers,
                                             int barrier) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    const int warp = thread >> 5;
    const int lane = thread & 31;
#pragma unroll
    for (int r = 0; r < kReps; ++r) {
      const int row0 = first_row + r * 64;
      const int row = row0 + warp * 16 + (lane >> 2);
      Factors down[2];
      Factors across[kHeld];
      if constexpr (kEpilogue != 0) {
        // Rows and columns outside of C are not stored, but must not be read either.
        down[0] = factors_of(epilogue, target.transposed == 0, min(row, target.m - 1));
        down[1] = factors_of(epilogue, target.transposed == 0, min(row + 8, target.m - 1));
        fetch_column_factors(across, epilogue, target, first_col, lane);
      }
#pragma unroll
      for (int i = 0; i < kWidth / kChunk; ++i) {
        const int col0 = first_col + i * kChunk;
        if constexpr (kEpilogue != 0) {
          finish(acc[r] + i * (kChunk / 2), down, across, epilogue, target, row, col0, batch, lane);
          if (i + 1 < kWidth / kChunk)  // in flight while this chunk is stored
            fetch_column_factors(across, epilogue, target, col0 + kChunk, lane);
        }
        const unsigned buffer = buffers + ((r * (kWidth / kChunk) + i) & 1) * kChunkBytes;
        if (kStore != kStoreStrided && thread == 0) {
          // The other buffer may still be in use; for the first chunk, it may be the previous
          // tile's last.
          r == 0 && i == 0 ? wait_stores_read<0>() : wait_stores_read<1>();
        }
        named_sync(barrier, 128);
        stage(acc[r], i * kChunk, buffer, warp, lane);
        if constexpr (kStore == kStoreStrided) {
          named_sync(barrier, 128);
          store_strided(target, buffer, row0, col0, batch, thread);
        } else {
          shared_to_copies_fence();
          named_sync(barrier, 128);
          if (thread == 0) {
            if constexpr (kStore == kStoreColumns) {
              store_box(map, buffer, row0, col0, batch);
            } else {
              store_box(map, buffer, col0, row0, batch);
            }
            commit_stores();
          }
        }
      }
    }
  }
};

}  // namespace gpk
