// Weights w [n, k] to codes of 4 or 8 bits with a scale per group, and back.
// quantize_scales: a warp per scale: scale = amax / largest code (integers, FP8, nf4),
//   e4m3(amax / 6 / tensor_scale), 2^(floor(log2 amax) - largest exponent) (e8m0), or
//   (max - min) / levels and a zero point. Of zeros the scale is 0 (e8m0: 2^-127).
// quantize_groups: FP8 in groups of 128 in one pass.
// quantize_values: a thread per four bytes of codes; bytes past k are 0.
// dequantize: a thread per eight values, which have one scale: groups are multiples of 16, or a
// row. grid: 1-D, 128 threads. float32; one IEEE division for each value.
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

// Of a thread: the row, its first value of k, and where its kBytes of codes are.
struct CodePlace {
  long long row, first;
  unsigned* words;
};

template <int kCode, int kBytes>
__device__ __forceinline__ CodePlace code_place(const QuantizeArgs& args) {
  const long long index =
      static_cast<long long>(blockIdx.x) * kQuantizeThreads + static_cast<int>(threadIdx.x);
  const long long parts = args.values_row / kBytes;
  const long long row = index / parts;
  const long long byte = (index - row * parts) * kBytes;
  constexpr int kPerByte = kIsNibble<kCode> ? 2 : 1;
  return {row, byte * kPerByte,
          reinterpret_cast<unsigned*>(args.values + row * args.values_row + byte)};
}

// Of all scales, that of a thread's values. Groups are powers of two where a row has several.
__device__ __forceinline__ long long scale_index(const QuantizeArgs& args, const CodePlace& place) {
  const long long row = args.scale_rows == 1 ? place.row : place.row / args.scale_rows;
  return row * args.groups +
         (args.groups == 1 ? 0 : place.first >> (63 - __clzll(static_cast<long long>(args.group))));
}

template <int kCode, class In>
__global__ void __launch_bounds__(kQuantizeThreads) quantize_values(const QuantizeArgs args) {
  constexpr int kPer = kIsNibble<kCode> ? 8 : 4;
  const CodePlace place = code_place<kCode, 4>(args);
  if (place.row >= args.n) return;
  unsigned bits = 0;
  if (place.first < args.k) {
    const In* const w = static_cast<const In*>(args.w) + place.row * args.w_row;
    const long long at = scale_index(args, place);
    const float scale = group_scale(args, at);
    const float zero = kHasZeroPoint<kCode> ? static_cast<float>(args.zeros[at]) : 0.0f;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const long long l = place.first + i;
      if (l >= args.k) break;
      const float x = scale > 0.0f ? convert<float>(w[l]) / scale : 0.0f;
      bits |= encode<kCode>(x, zero) << (i * (32 / kPer));
    }
  }
  *place.words = bits;
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
  constexpr int kValues = kDequantizeValues;
  constexpr int kBits = kIsNibble<kCode> ? 4 : 8;
  constexpr int kWords = kValues * kBits / 32;
  const CodePlace place = code_place<kCode, kWords * 4>(args);
  if (place.row >= args.n || place.first >= args.k) return;
  if (args.sizes != nullptr && args.sizes[place.row / args.matrix_rows] <= 0) return;
  const Vec<unsigned, kWords> words = load_vec<unsigned, kWords>(place.words);
  const long long at = scale_index(args, place);
  const float scale = group_scale(args, at);
  const float zero = kHasZeroPoint<kCode> ? static_cast<float>(args.zeros[at]) : 0.0f;
  constexpr int kPart = sizeof(Out) == 2 ? kValues : kValues / 2;  // of a store of 16 bytes
  Vec<Out, kPart> y[kValues / kPart];
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    const unsigned bits = words.v[i * kBits / 32] >> (i * kBits % 32) & ((1u << kBits) - 1u);
    y[i / kPart].v[i % kPart] = convert<Out>((decode<kCode>(bits) - zero) * scale);
  }
  Out* const to = static_cast<Out*>(args.out) + place.row * args.k + place.first;
  if (args.k % kValues == 0 && reinterpret_cast<unsigned long long>(args.out) % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kValues / kPart; ++i) store_vec<Out, kPart>(to + i * kPart, y[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kValues; ++i)
    if (place.first + i < args.k) to[i] = y[i / kPart].v[i % kPart];
}

}  // namespace gpk
