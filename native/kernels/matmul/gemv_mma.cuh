// gemv.cuh and gemv_columns.cuh for up to 64 rows of x on tensor cores (SM80+), 16 bits: w is the
// 16-row operand, x the 8-column one, both loaded from global memory into fragments. Any k may go
// into any slot of the instruction as long as both operands agree: thread t of four takes the 16
// bytes from 8t on of each 32 elements of k for two steps of 16. Columns: a thread has 8 columns of
// w and 4 rows (4t on of 16); two rows form the pairs of k.
// grid: x = blocks of j, y = split-K, z = batch; 256 threads. m <= 8 * kTilesM.
// The order of summation does not depend on m or on tiles: rows of x are columns of the
// instruction. kNorm: x is rmsnorm(x) (args.norm_weight), rounded, in m * (k + 32) elements of
// dynamic shared memory. kGated: y = silu(x w^T) * (x w'^T), w' being the n rows after w; kTilesN
// is 2.
#pragma once

#include "matmul/gemv_rows.cuh"

namespace gpk {

template <class T>
__device__ __forceinline__ void gemv_mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                         unsigned a3, unsigned b0, unsigned b1) {
  if constexpr (kIsSame<T, bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// Bases, pitches and k are multiples of 16 bytes. A warp has kTilesN times 16 rows of w and blocks
// of 32 * kUnroll of k; the block steps through the tiles of w, one grid apart.
template <class T, int kTilesM, int kTilesN, int kUnroll, int kOrder, bool kNorm, bool kGated>
__global__ void __launch_bounds__(kGemvThreads, kTilesM == 1 && kGated && !kNorm ? 1 : 0)
    gemv_mma_kernel(const __grid_constant__ GemvArgs args,
                    const __grid_constant__ EpilogueArgs epilogue) {
  constexpr int kM = 8 * kTilesM;
  constexpr int kRows = 16 * kTilesN;
  constexpr int kColumns = kGated ? 16 : kRows;  // of y
  static_assert(!kGated || kTilesN == 2);
  constexpr int kPitch = kRows + 4;  // no bank conflicts between the threads of a store
  constexpr int kBlockK = 32 * kUnroll;
  __shared__ float sums[kGemvWarps * kM * kPitch];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int k_warps = static_cast<int>(args.k_warps);
  const int tile_rows = kGemvWarps / k_warps * kColumns;
  const GemvRange range = gemv_range(args);
  const int step = k_warps * kBlockK;
  const int first_at = range.begin + warp % k_warps * kBlockK + t * 8;
  const int n = static_cast<int>(args.n);

  const T* w[kTilesN][2];
  Chunk ahead[kUnroll][kTilesN][2];
  int first_j = static_cast<int>(blockIdx.x) * tile_rows;
  const auto fetch_first = [&] {
    const int row = first_j + warp / k_warps * kColumns + g;
#pragma unroll
    for (int tile = 0; tile < kTilesN; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // rows past the end repeat the last one
        const int j = row + (kGated ? 0 : tile * 16) + half * 8;
        const long long of_w = (j < n ? j : n - 1) + (kGated ? tile * args.n : 0);
        w[tile][half] =
            static_cast<const T*>(args.w) + blockIdx.z * args.w_batch + of_w * args.w_pitch;
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          ahead[u][tile][half] =
              load_weights(w[tile][half] + first_at + u * 32, first_at + u * 32 < range.end);
  };
  gemv_begin<kOrder>();
  fetch_first();
  gemv_before_input<kOrder>();
  const typename GemvInput<T, kM, kNorm>::Type x(args);
  while (true) {
    float acc[kTilesN][kTilesM][4] = {};
    for (int at = first_at; at - t * 8 < range.end; at += step) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int here = at + u * 32;
        Chunk a[kTilesN][2];
#pragma unroll
        for (int tile = 0; tile < kTilesN; ++tile) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            a[tile][half] = ahead[u][tile][half];
            ahead[u][tile][half] =
                load_weights(w[tile][half] + here + step, here + step < range.end);
          }
        }
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          const Chunk b = x.load(8 * i + g, here, 8 * i + g < args.m && here < range.end);
#pragma unroll
          for (int tile = 0; tile < kTilesN; ++tile) {
            const Chunk& a0 = a[tile][0];
            const Chunk& a1 = a[tile][1];
            gemv_mma<T>(acc[tile][i], a0.v[0], a1.v[0], a0.v[1], a1.v[1], b.v[0], b.v[1]);
            gemv_mma<T>(acc[tile][i], a0.v[2], a1.v[2], a0.v[3], a1.v[3], b.v[2], b.v[3]);
          }
        }
      }
    }

#pragma unroll
    for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          sums[(warp * kM + 8 * i + 2 * t + e % 2) * kPitch + tile * 16 + e / 2 * 8 + g] =
              acc[tile][i][e];
    gemv_finish_block<T, kM, kRows, kPitch, kGated>(args, epilogue, sums, k_warps, 0, first_j);
    first_j += static_cast<int>(gridDim.x) * tile_rows;
    if (first_j >= n) break;
    __syncthreads();  // the sums have been read
    fetch_first();
  }
}

constexpr int kGemvMmaColumns = 128;

// w [k, n], its base, pitch and n multiples of 16 bytes; k a multiple of 4, rows of x of 8 bytes.
// The warps of a block share 128 columns and take 16 rows of w each, round-robin.
template <class T, int kTilesM, int kOrder>
__global__ void __launch_bounds__(kGemvThreads)
    gemv_mma_columns_kernel(const __grid_constant__ GemvArgs args,
                            const __grid_constant__ EpilogueArgs epilogue) {
  constexpr int kPitch = kGemvMmaColumns + 4;
  constexpr int kStep = kGemvWarps * 16;
  __shared__ alignas(16) float sums[kGemvWarps * 8 * kPitch];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_j = static_cast<int>(blockIdx.x) * kGemvMmaColumns;
  const int column = first_j + g * 8;
  const GemvRange range = gemv_range(args);
  // The ends of K for the two halves: threads past the last column load nothing.
  const int ends[2] = {column < args.n ? range.end : range.begin,
                       column + 64 < args.n ? range.end : range.begin};
  int at = range.begin + warp * 16 + t * 4;
  const T* w =
      static_cast<const T*>(args.w) + blockIdx.z * args.w_batch + column + at * args.w_pitch;

  gemv_begin<kOrder>();
  Chunk ahead[2][4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      ahead[half][r] = load_weights(w + half * 64, at < ends[half]);
    w += args.w_pitch;
  }
  const long long to_next = (kStep - 4) * args.w_pitch;

  gemv_before_input<kOrder>();
  const T* x = static_cast<const T*>(args.x) + blockIdx.z * args.x_batch + g * args.x_m;
  float acc[8][kTilesM][4] = {};
  for (; at - t * 4 < range.end; at += kStep) {
    uint2 b[kTilesM];
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      b[i] = make_uint2(0, 0);
      if (8 * i + g < args.m && at < range.end)
        b[i] = *reinterpret_cast<const uint2*>(x + 8 * i * args.x_m + at);
    }
    // pairs[half][k pair][column]
    unsigned pairs[2][2][8];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          pairs[half][p][j] =
              __byte_perm(ahead[half][2 * p].v[j / 2], ahead[half][2 * p + 1].v[j / 2],
                          j % 2 == 0 ? 0x5410 : 0x7632);
    w += to_next;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        ahead[half][r] = load_weights(w + half * 64, at + kStep < ends[half]);
      w += args.w_pitch;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        gemv_mma<T>(acc[j][i], pairs[0][0][j], pairs[1][0][j], pairs[0][1][j], pairs[1][1][j],
                    b[i].x, b[i].y);
  }

#pragma unroll
  for (int i = 0; i < kTilesM; ++i) {
    if (i > 0) __syncthreads();  // the previous tile's sums have been read
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float* to = sums + (warp * 8 + 2 * t + e % 2) * kPitch + e / 2 * 64 + g * 8;
#pragma unroll
      for (int j = 0; j < 8; j += 4)
        *reinterpret_cast<float4*>(to + j) =
            make_float4(acc[j][i][e], acc[j + 1][i][e], acc[j + 2][i][e], acc[j + 3][i][e]);
    }
    gemv_finish_block<T, 8, kGemvMmaColumns, kPitch>(args, epilogue, sums, kGemvWarps, 8 * i,
                                                     first_j);
  }
}

}  // namespace gpk
