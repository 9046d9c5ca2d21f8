// Weights w [n, k] to codes of 4 or 8 bits with a scale per group, and back.
// quantize_scales: a warp per scale: scale = amax / largest code (integers, FP8, nf4),
//   e4m3(amax / 6 / tensor_scale), 2^(floor(log2 amax) - largest exponent) (e8m0), or
//   (max - min) / levels and a zero point. Of zeros the scale is 0 (e8m0: 2^-127).
// quantize_groups: FP8 in groups of 128 in one pass.
// quantize_values, dequantize: a thread per four bytes of codes; bytes past k are 0.
// grid: 1-D, 128 threads. float32; one IEEE division for each value.
#pragma once

#include "common/packed_codec.cuh"
#include "common/vec.cuh"

namespace gpk {

// The largest magnitude of a code.
__device__ __forceinline__ float largest_of(int code) {
  switch (code) {
    case kCodeInt4: return 7.0f;
    case kCodeInt8: return 127.0f;
    case kCodeE4M3: return 448.0f;
    case kCodeE5M2: return 57344.0f;
    case kCodeE2M1: return 6.0f;
    default: return 1.0f;
  }
}

__device__ __forceinline__ unsigned char e8m0_scale(float amax, int code) {
  const int largest = code == kCodeE2M1 ? 2 : (code == kCodeE4M3 ? 8 : 15);
  const int exponent = static_cast<int>(__float_as_uint(amax) >> 23) - largest;
  return static_cast<unsigned char>(min(max(exponent, 0), 254));
}

__device__ __forceinline__ void put_scale(const QuantizeArgs& args, long long at, float lo,
                                          float hi) {
  const float amax = fmaxf(-lo, hi);
  auto* const codes = static_cast<unsigned char*>(args.scales);
  if (args.scale_code == kScaleE8M0) {
    codes[at] = e8m0_scale(amax, args.code);
    return;
  }
  if (args.scale_code == kScaleE4M3) {
    const float whole = *args.tensor_scale;
    const float scale = whole > 0.0f ? amax / largest_of(args.code) / whole : 0.0f;
    codes[at] = convert<float8_e4m3fn>(fminf(scale, 448.0f)).bits;
    return;
  }
  float scale = amax / largest_of(args.code);
  if (args.zeros != nullptr) {
    const float levels = args.code == kCodeUint4 ? 15.0f : 255.0f;
    scale = (hi - lo) / levels;
    const float zero = scale > 0.0f ? fminf(rintf(-lo / scale), levels) : 0.0f;
    args.zeros[at] = static_cast<unsigned char>(__float2int_rn(zero));
  }
  static_cast<float*>(args.scales)[at] = scale;
}

template <class In>
__global__ void __launch_bounds__(kQuantizeThreads) quantize_scales(const QuantizeArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long at =
      static_cast<long long>(blockIdx.x) * (kQuantizeThreads / 32) + threadIdx.x / 32;
  const long long first_row = at / args.groups * args.scale_rows;
  if (first_row >= args.n) return;
  const long long first = at % args.groups * args.group;
  const int count = static_cast<int>(min(static_cast<long long>(args.group), args.k - first));
  const long long end_row = min(first_row + args.scale_rows, args.n);
  float lo = 0.0f;
  float hi = 0.0f;
  for (long long row = first_row; row < end_row; ++row) {
    const In* const w = static_cast<const In*>(args.w) + row * args.w_row + first;
    for (int i = lane; i < count; i += 32) {
      const float x = convert<float>(w[i]);
      lo = fminf(lo, x);
      hi = fmaxf(hi, x);
    }
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2) {
    lo = fminf(lo, __shfl_xor_sync(0xffffffffu, lo, o));
    hi = fmaxf(hi, __shfl_xor_sync(0xffffffffu, hi, o));
  }
  if (lane == 0) put_scale(args, at, lo, hi);
}

// Of a thread: the row, its first value of k, and where its word of codes is.
struct CodeWord {
  long long row, first;
  unsigned* place;
};

template <int kCode>
__device__ __forceinline__ CodeWord code_word(const QuantizeArgs& args) {
  const long long index =
      static_cast<long long>(blockIdx.x) * kQuantizeThreads + static_cast<int>(threadIdx.x);
  const long long words = args.values_row / 4;
  const long long row = index / words;
  const long long word = index - row * words;
  constexpr int kPer = kIsNibble<kCode> ? 8 : 4;
  return {row, word * kPer,
          reinterpret_cast<unsigned*>(args.values + row * args.values_row) + word};
}

template <int kCode, class In>
__global__ void __launch_bounds__(kQuantizeThreads) quantize_values(const QuantizeArgs args) {
  constexpr int kPer = kIsNibble<kCode> ? 8 : 4;
  const CodeWord word = code_word<kCode>(args);
  if (word.row >= args.n) return;
  const In* const w = static_cast<const In*>(args.w) + word.row * args.w_row;
  const long long scales = word.row / args.scale_rows * args.groups;
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const long long l = word.first + i;
    if (l >= args.k) break;
    const long long at = scales + l / args.group;
    const float scale = group_scale(args, at);
    const float x = scale > 0.0f ? convert<float>(w[l]) / scale : 0.0f;
    const float zero = kHasZeroPoint<kCode> ? static_cast<float>(args.zeros[at]) : 0.0f;
    bits |= encode<kCode>(x, zero) << (i * (32 / kPer));
  }
  *word.place = bits;
}

// Both at once for FP8 in groups of 128, the activations of a block-scaled GEMM: a warp per group,
// four values per lane. The same bits as quantize_scales and quantize_values.
template <class In>
__global__ void __launch_bounds__(kQuantizeThreads) quantize_groups(const QuantizeArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long at =
      static_cast<long long>(blockIdx.x) * (kQuantizeThreads / 32) + threadIdx.x / 32;
  const long long row = at / args.groups;
  if (row >= args.n) return;
  const long long first = at % args.groups * 128 + lane * 4;
  const In* const w = static_cast<const In*>(args.w) + row * args.w_row;
  float x[4];
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] = first + i < args.k ? convert<float>(w[first + i]) : 0.0f;
    amax = fmaxf(amax, fabsf(x[i]));
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2) amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, o));
  const float scale = amax / largest_of(kCodeE4M3);
  if (lane == 0) static_cast<float*>(args.scales)[at] = scale;
  if (first >= args.values_row) return;
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i < args.k)
      bits |= encode<kCodeE4M3>(scale > 0.0f ? x[i] / scale : 0.0f, 0.0f) << (8 * i);
  *reinterpret_cast<unsigned*>(args.values + row * args.values_row + first) = bits;
}

template <int kCode, class Out>
__global__ void __launch_bounds__(kQuantizeThreads) dequantize(const QuantizeArgs args) {
  constexpr int kPer = kIsNibble<kCode> ? 8 : 4;
  constexpr int kBits = 32 / kPer;
  const CodeWord word = code_word<kCode>(args);
  if (word.row >= args.n || word.first >= args.k) return;
  const unsigned bits = *word.place;
  const long long scales = word.row / args.scale_rows * args.groups;
  Out* const to = static_cast<Out*>(args.out) + word.row * args.k + word.first;
  Vec<Out, kPer> y;
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const long long at = scales + min(word.first + i, args.k - 1) / args.group;
    float x = decode<kCode>(bits >> (i * kBits) & ((1u << kBits) - 1u));
    if constexpr (kHasZeroPoint<kCode>) x -= static_cast<float>(args.zeros[at]);
    y.v[i] = convert<Out>(x * group_scale(args, at));
  }
  if constexpr (sizeof(y) <= 16) {
    if (args.k % kPer == 0) {
      store_vec<Out, kPer>(to, y);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kPer; ++i)
    if (word.first + i < args.k) to[i] = y.v[i];
}

}  // namespace gpk
