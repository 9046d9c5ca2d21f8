// Where the elements of a reduction are: kept dimensions (one result per index) and reduced ones,
// slowest first, strides in elements. The host has the same structs (ops/reduction/layout.h).
#pragma once

#include "reduction/ops.cuh"

namespace gpk {

constexpr int kMaxDims = 6;

struct Layout {
  long long kept_size[kMaxDims];
  long long kept_in[kMaxDims];
  long long kept_out[kMaxDims];
  long long reduced_size[kMaxDims];
  long long reduced_in[kMaxDims];
  long long kept;     // number of results
  long long reduced;  // elements of each
  int num_kept;
  int num_reduced;
};

struct ReduceArgs {
  const void* in;
  void* out;
  void* partials;      // [split][result], where there are several splits
  unsigned* counters;  // one per block column, zero before and after
  Layout layout;
  Finish finish;
  long long per_split;  // general, columns: reduced elements of one split
  long long stretches;  // rows: pieces of a row that lie side by side in memory
  int in_code;
  int skip_nan;
  int group;       // rows: threads that share one
  int lanes;       // rows: threads of them that share a stretch
  int short_rows;  // rows: one access per thread and row
  int unused;
};

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
__device__ __forceinline__ void kept_offsets(const Layout& layout, int num, long long index,
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
__device__ __forceinline__ void reduced_offsets(const Layout& layout, int num,
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
