// Offsets of elements and results in a ReduceLayout.
#pragma once

#include "reduction/ops.cuh"

namespace gpk {

// Quotient and remainder; 64-bit division only where it is needed.
__device__ __forceinline__ long long split_index(long long& index, long long size) {
  if (((index | size) >> 32) == 0) {
    const unsigned quotient = static_cast<unsigned>(index) / static_cast<unsigned>(size);
    const unsigned rest = static_cast<unsigned>(index) - quotient * static_cast<unsigned>(size);
    index = quotient;
    return rest;
  }
  const long long quotient = index / size;
  const long long rest = index - quotient * size;
  index = quotient;
  return rest;
}

// Offsets of result `index` of the first `num` kept dimensions.
__device__ __forceinline__ void kept_offsets(const ReduceLayout& layout, int num, long long index,
                                             long long& in, long long& out) {
  in = out = 0;
#pragma unroll 1
  for (int d = num - 1; d > 0; --d) {
    const long long at = split_index(index, layout.kept_size[d]);
    in += at * layout.kept_in[d];
    out += at * layout.kept_out[d];
  }
  if (num > 0) {
    in += index * layout.kept_in[0];
    out += index * layout.kept_out[0];
  }
}

// at[i] = offset of element index[i] of the first `num` reduced dimensions. Changes `index`.
template <int kN>
__device__ __forceinline__ void reduced_offsets(const ReduceLayout& layout, int num,
                                                long long (&index)[kN], long long (&at)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) at[i] = 0;
#pragma unroll 1
  for (int d = num - 1; d > 0; --d) {
#pragma unroll
    for (int i = 0; i < kN; ++i)
      at[i] += split_index(index[i], layout.reduced_size[d]) * layout.reduced_in[d];
  }
  if (num > 0) {
#pragma unroll
    for (int i = 0; i < kN; ++i) at[i] += index[i] * layout.reduced_in[0];
  }
}

}  // namespace gpk
