// Rows of activations to mxfp8, mxfp4 or nvfp4 in one pass, each on its own: the same bits as
// quantize_scales and quantize_values of quantize.cuh for a weight of one row. nvfp4 has a float32
// scale per row, amax / (448 * 6), instead of one for all.
// grid: a block per row. A thread quantises groups of kGroup values of k in turn.
#pragma once

#include "quantize/quantize.cuh"

namespace gpk {

// amax / (448 * 6) of the row, in row_scales[row].
template <class In>
__device__ __forceinline__ void put_row_scale(const In* w, long long k, float* row_scale) {
  __shared__ float largest[kQuantizeThreads / 32];
  float amax = 0.0f;
  for (long long l = threadIdx.x; l < k; l += kQuantizeThreads)
    amax = fmaxf(amax, fabsf(convert<float>(w[l])));
#pragma unroll
  for (int o = 16; o > 0; o /= 2) amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, o));
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = amax;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 1; i < kQuantizeThreads / 32; ++i) amax = fmaxf(amax, largest[i]);
    *row_scale = amax / (448.0f * 6.0f);
  }
  __syncthreads();
}

template <int kCode, int kGroup, class In>
__global__ void __launch_bounds__(kQuantizeThreads)
    quantize_rows(QuantizeArgs args, float* row_scales) {
  constexpr int kPer = kIsNibble<kCode> ? 8 : 4;  // values of a word
  constexpr int kWords = kGroup / kPer;
  const long long row = blockIdx.x;
  const In* const w = static_cast<const In*>(args.w) + row * args.w_row;
  if (row_scales != nullptr) {
    put_row_scale(w, args.k, row_scales + row);
    args.tensor_scale = row_scales + row;
  }
  const long long row_words = args.values_row / 4;
  auto* const codes = reinterpret_cast<unsigned*>(args.values + row * args.values_row);
  for (long long group = threadIdx.x; group * kWords < row_words; group += kQuantizeThreads) {
    float x[kGroup];
    float lo = 0.0f;
    float hi = 0.0f;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const long long l = group * kGroup + i;
      x[i] = l < args.k ? convert<float>(w[l]) : 0.0f;
      lo = fminf(lo, x[i]);
      hi = fmaxf(hi, x[i]);
    }
    float scale = 0.0f;  // of bytes past the last group
    if (group < args.groups) {
      put_scale(args, row * args.groups + group, lo, hi);
      scale = group_scale(args, row * args.groups + group);
    }
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      if (group * kWords + j >= row_words) break;
      unsigned bits = 0;
#pragma unroll
      for (int i = 0; i < kPer; ++i)
        if (group * kGroup + j * kPer + i < args.k)
          bits |= encode<kCode>(scale > 0.0f ? x[j * kPer + i] / scale : 0.0f, 0.0f)
                  << (i * (32 / kPer));
      codes[group * kWords + j] = bits;
    }
  }
}

}  // namespace gpk
