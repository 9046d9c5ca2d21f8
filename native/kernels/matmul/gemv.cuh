// y[m, n] = x[m, k] w[n, k]^T for few rows of x, both K-major: a warp has kRows rows of w, its
// lanes walk K in chunks of 16 bytes, kUnroll of them in flight per row.
// grid: x = (rows of w) x (blocks of kM rows of x), y = split-K, z = batch; 256 threads.
// kAlign: alignment of the bases, pitches and k, in bytes; below 16, chunks are loaded in pieces.
// Order of summation, the same for every kM, kRows and kUnroll: see gemv_parts.cuh.
#pragma once

#include "matmul/gemv_parts.cuh"

namespace gpk {

template <class T, int kAlign>
__device__ __forceinline__ Chunk load_weight_chunk(const T* row, int at, int end) {
  if constexpr (kAlign == 16) {
    return load_weights(row + at, at < end);
  } else {
    return load_pieces<T, kAlign>(row + at, end - at);
  }
}

template <class T, int kAlign>
__device__ __forceinline__ Chunk load_input_chunk(const T* row, int at, int end) {
  if constexpr (kAlign == 16) {
    return load_shared_input(row + at, at < end);
  } else {
    return load_pieces<T, kAlign>(row + at, end - at);
  }
}

// Prefetches a line into the L1. Reusing the destination register would wait for the load, so it is
// kept live.
template <class T>
__device__ __forceinline__ unsigned touch(const T* p) {
  unsigned short bits;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(p));
  return bits;
}
__device__ __forceinline__ void keep_until_here(unsigned x) { asm volatile("" ::"r"(x)); }

template <class T, int kM, int kRows, int kUnroll, int kAlign, int kOrder>
__global__ void __launch_bounds__(kGemvThreads)
    gemv_kernel(const __grid_constant__ GemvArgs args,
                const __grid_constant__ EpilogueArgs epilogue) {
  constexpr int kPer = GemvWeight<T>::kPer;
  __shared__ float sums[kGemvWarps * kM * kRows];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int k_warps = static_cast<int>(args.k_warps);
  const int block_rows = kGemvWarps / k_warps * kRows;
  const int blocks_m = (static_cast<int>(args.m) + kM - 1) / kM;
  const int block_n =
      kM == 1 ? static_cast<int>(blockIdx.x) : static_cast<int>(blockIdx.x) / blocks_m;
  const int first_i = kM == 1 ? 0 : (static_cast<int>(blockIdx.x) - block_n * blocks_m) * kM;
  const int first_j = block_n * block_rows;
  const int row = first_j + warp / k_warps * kRows;
  const GemvRange range = gemv_range(args);
  const int step = k_warps * 32 * kPer;

  const T* w[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {  // rows past the end repeat the last one
    const long long j = row + r < args.n ? row + r : args.n - 1;
    w[r] = static_cast<const T*>(args.w) + blockIdx.z * args.w_batch + j * args.w_pitch;
  }
  int at = range.begin + (warp % k_warps * 32 + lane) * kPer;
  gemv_begin<kOrder>();
  // x first, a line per thread, where it is available: after the weights it would arrive late.
  const T* x = static_cast<const T*>(args.x) + blockIdx.z * args.x_batch + first_i * args.x_m;
  unsigned touched = 0;
  if constexpr (kM == 1 && kOrder != kOrderPrefetch) {
    const int line =
        range.begin + static_cast<int>(threadIdx.x) * (128 / static_cast<int>(sizeof(T)));
    if (line < range.end) touched = touch(x + line);
  }
  Chunk ahead[kUnroll][kRows];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u)
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      ahead[u][r] = load_weight_chunk<T, kAlign>(w[r], at + u * step, range.end);

  gemv_before_input<kOrder>();
  const int num_m = static_cast<int>(args.m) - first_i;
  float acc[kRows][kM] = {};
  for (int warp_at = at - lane * kPer; warp_at < range.end; warp_at += kUnroll * step) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (warp_at + u * step < range.end) {
        float weights[kRows][kPer];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          GemvWeight<T>::unpack(ahead[u][r], weights[r]);
          ahead[u][r] = load_weight_chunk<T, kAlign>(w[r], at + (kUnroll + u) * step, range.end);
        }
#pragma unroll
        for (int i = 0; i < kM; ++i) {
          if (kM > 1 && i >= num_m) break;
          float inputs[kPer];
          GemvWeight<T>::unpack(
              load_input_chunk<T, kAlign>(x + i * args.x_m, at + u * step, range.end), inputs);
#pragma unroll
          for (int e = 0; e < kPer; ++e)
#pragma unroll
            for (int r = 0; r < kRows; ++r) acc[r][i] = fmaf(weights[r][e], inputs[e], acc[r][i]);
        }
      }
    }
    at += kUnroll * step;
  }

  if constexpr (kM == 1) keep_until_here(touched);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        acc[r][i] += __shfl_xor_sync(0xffffffffu, acc[r][i], distance);
      if (lane == r * kM + i) sums[warp * (kM * kRows) + i * kRows + r] = acc[r][i];
    }
  }
  gemv_finish_block<T, kM, kRows, kRows>(args, epilogue, sums, k_warps, first_i, first_j);
}

}  // namespace gpk
