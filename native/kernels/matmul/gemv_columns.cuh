// y[m, n] = x[m, k] w[k, n] for few rows of x, w N-major: a lane has one chunk (16 bytes) of
// columns, kLanes adjacent lanes a run of them, and each such group of lanes walks down its own
// rows of w, kDepth at a time, all of them in flight.
// grid: x = (runs of columns) x (blocks of kM rows of x), y = split-K, z = batch; 256 threads.
// kAlign: alignment of the bases, the pitch and n of w, in bytes. Rows of x are 16-byte aligned.
// Order of summation, the same for every kM: by rows of w in a group, over the groups of a warp,
// then as in gemv_parts.cuh.
#pragma once

#include "matmul/gemv_parts.cuh"

namespace gpk {

constexpr int kGemvDepth = 8;

// x[at .. at + 8) of one row, zeros from `end` on.
template <class T>
__device__ __forceinline__ void load_depth(const T* row, int at, int end,
                                           float (&inputs)[kGemvDepth]) {
  constexpr int kPer = GemvWeight<T>::kPer;
  if (at + kGemvDepth <= end) {
#pragma unroll
    for (int c = 0; c < kGemvDepth / kPer; ++c) {
      float part[kPer];
      GemvWeight<T>::unpack(load_shared_input(row + at + c * kPer, true), part);
#pragma unroll
      for (int e = 0; e < kPer; ++e) inputs[c * kPer + e] = part[e];
    }
  } else {
#pragma unroll
    for (int u = 0; u < kGemvDepth; ++u) inputs[u] = at + u < end ? to_compute(row[at + u]) : 0.0f;
  }
}

template <class T, int kAlign>
__device__ __forceinline__ Chunk load_columns(const T* p, bool valid, int columns_left) {
  if constexpr (kAlign == 16) {
    return load_weights(p, valid);
  } else {
    return load_pieces<T, kAlign>(p, valid ? columns_left : 0);
  }
}

template <class T, int kM, int kLanes, int kAlign, int kOrder>
__global__ void __launch_bounds__(kGemvThreads, kM == 1 ? 2 : 1)
    gemv_columns_kernel(const __grid_constant__ GemvArgs args,
                        const __grid_constant__ EpilogueArgs epilogue) {
  constexpr int kPer = GemvWeight<T>::kPer;
  constexpr int kColumns = kLanes * kPer;
  constexpr int kGroups = kGemvThreads / kLanes;
  constexpr int kPitch = kColumns + 4;
  __shared__ alignas(16) float sums[kGemvWarps * kM * kPitch];
  const int lane_n = static_cast<int>(threadIdx.x) % kLanes;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const int blocks_m = (static_cast<int>(args.m) + kM - 1) / kM;
  const int block_n = static_cast<int>(blockIdx.x) / blocks_m;
  const int first_i = (static_cast<int>(blockIdx.x) - block_n * blocks_m) * kM;
  const int first_j = block_n * kColumns;
  const int column = first_j + lane_n * kPer;
  const int columns_left = static_cast<int>(args.n) - column;
  const GemvRange range = gemv_range(args);
  // The end of K for this lane: lanes past the last column load nothing.
  const int end = columns_left > 0 ? range.end : range.begin;
  int at = range.begin + group * kGemvDepth;
  const T* w =
      static_cast<const T*>(args.w) + blockIdx.z * args.w_batch + column + at * args.w_pitch;

  gemv_begin<kOrder>();
  Chunk ahead[kGemvDepth];
#pragma unroll
  for (int u = 0; u < kGemvDepth; ++u) {
    ahead[u] = load_columns<T, kAlign>(w, at + u < end, columns_left);
    w += args.w_pitch;
  }
  const long long to_next = (kGroups - 1) * kGemvDepth * args.w_pitch;

  gemv_before_input<kOrder>();
  const T* x = static_cast<const T*>(args.x) + blockIdx.z * args.x_batch + first_i * args.x_m;
  const int num_m = static_cast<int>(args.m) - first_i;
  float acc[kM][kPer] = {};
  for (; at < range.end; at += kGroups * kGemvDepth) {
    w += to_next;
    float inputs[kM][kGemvDepth];
#pragma unroll
    for (int i = 0; i < kM; ++i)
      if (kM == 1 || i < num_m) load_depth(x + i * args.x_m, at, range.end, inputs[i]);
#pragma unroll
    for (int u = 0; u < kGemvDepth; ++u) {
      float weights[kPer];
      GemvWeight<T>::unpack(ahead[u], weights);
      ahead[u] = load_columns<T, kAlign>(w, at + kGroups * kGemvDepth + u < end, columns_left);
      w += args.w_pitch;
#pragma unroll
      for (int i = 0; i < kM; ++i)
        if (kM == 1 || i < num_m) {
#pragma unroll
          for (int e = 0; e < kPer; ++e) acc[i][e] = fmaf(weights[e], inputs[i][u], acc[i][e]);
        }
    }
  }

  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int e = 0; e < kPer; ++e) {
#pragma unroll
      for (int distance = 16; distance >= kLanes; distance /= 2)
        acc[i][e] += __shfl_xor_sync(0xffffffffu, acc[i][e], distance);
    }
    if (static_cast<int>(threadIdx.x) % 32 < kLanes) {
      float* to = sums + (warp * kM + i) * kPitch + lane_n * kPer;
#pragma unroll
      for (int e = 0; e < kPer; e += 4)
        *reinterpret_cast<float4*>(to + e) =
            make_float4(acc[i][e], acc[i][e + 1], acc[i][e + 2], acc[i][e + 3]);
    }
  }
  gemv_finish_block<T, kM, kColumns, kPitch>(args, epilogue, sums, kGemvWarps, first_i, first_j);
}

}  // namespace gpk
