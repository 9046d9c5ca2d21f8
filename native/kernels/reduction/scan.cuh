// Common to the scans along contiguous rows: a warp's segment of kU slabs of 32 * kV consecutive
// elements, of which each lane holds kV per slab. Within a segment prefixes are of the Op's Value
// type; the carry into it is of the wider Acc type.
#pragma once

#include "common/vec.cuh"
#include "reduction/ops.cuh"

namespace gpk {

constexpr int kBlock = ScanArgs::kBlock;

// Result type of scans over In: sums and products of integers are 64 bits wide.
template <class In>
struct ScanOut {
  using type = long long;
};
template <>
struct ScanOut<float16> {
  using type = float16;
};
template <>
struct ScanOut<bfloat16> {
  using type = bfloat16;
};
template <>
struct ScanOut<float> {
  using type = float;
};
template <>
struct ScanOut<double> {
  using type = double;
};
template <>
struct ScanOut<complex128> {
  using type = complex128;
};

template <class T>
__device__ __forceinline__ T shuffle(const T& x, int lane) {
  union Words {
    T value;
    unsigned words[sizeof(T) / 4];
    __device__ Words() {}
  };
  Words from;
  Words to;
  from.value = x;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
    to.words[i] = __shfl_sync(0xffffffffu, from.words[i], lane);
  return to.value;
}

template <class In, class Op, int kU, int kV>
struct Segment {
  using Value = typename Op::Value;
  using Acc = typename Op::Acc;
  using Out = typename ScanOut<In>::type;
  static constexpr int kElements = 32 * kV * kU;
  Value x[kU * kV];

  // As loaded: in flight while something else is computed.
  struct Raw {
    Vec<In, kV> v[kU];

    // Elements [0, left) of the segment at `in`; neutral ones beyond.
    __device__ __forceinline__ void load(const In* in, long long left, int lane) {
      if (left >= kElements) {
#pragma unroll
        for (int u = 0; u < kU; ++u) v[u] = load_vec<In, kV>(in + (u * 32 + lane) * kV);
      } else {
        const In neutral = convert<In>(Op::template identity<Value>());
#pragma unroll
        for (int i = 0; i < kU * kV; ++i) {
          const int at = (i / kV * 32 + lane) * kV + i % kV;
          v[i / kV].v[i % kV] = at < left ? in[at] : neutral;
        }
      }
    }
  };

  __device__ __forceinline__ void take(const Op& op, const Raw& raw) {
#pragma unroll
    for (int i = 0; i < kU * kV; ++i) x[i] = Op::value(raw.v[i / kV].v[i % kV]);
    if (op.skip_nan) {
#pragma unroll
      for (int i = 0; i < kU * kV; ++i)
        if (is_nan(x[i])) x[i] = Op::template identity<Value>();
    }
  }

  __device__ __forceinline__ void load(const Op& op, const In* in, long long left, int lane) {
    Raw raw;
    raw.load(in, left, lane);
    take(op, raw);
  }

  // Prefixes within the segment; returns the total. All lanes must call it.
  __device__ __forceinline__ Value scan(int lane) {
    Value before = Op::template identity<Value>();
#pragma unroll
    for (int u = 0; u < kU; ++u) {
#pragma unroll
      for (int v = 1; v < kV; ++v) x[u * kV + v] = Op::combine(x[u * kV + v - 1], x[u * kV + v]);
      Value inclusive = x[u * kV + kV - 1];
#pragma unroll
      for (int o = 1; o < 32; o *= 2) {
        const Value other = shuffle(inclusive, lane >= o ? lane - o : lane);
        if (lane >= o) inclusive = Op::combine(other, inclusive);
      }
      const Value left = shuffle(inclusive, lane > 0 ? lane - 1 : 0);
      const Value prefix = lane > 0 ? Op::combine(before, left) : before;
#pragma unroll
      for (int v = 0; v < kV; ++v) x[u * kV + v] = Op::combine(prefix, x[u * kV + v]);
      before = Op::combine(before, shuffle(inclusive, 31));
    }
    return before;
  }

  __device__ __forceinline__ void store(Out* out, const Acc& before, long long left,
                                        int lane) const {
    constexpr int kStore = kV * sizeof(Out) > 16 ? 16 / sizeof(Out) : kV;
    if (left >= kElements) {
#pragma unroll
      for (int i = 0; i < kU * kV; i += kStore) {
        Vec<Out, kStore> y;
#pragma unroll
        for (int j = 0; j < kStore; ++j)
          y.v[j] = convert<Out>(Op::combine(before, convert<Acc>(x[i + j])));
        store_vec<Out, kStore>(out + (i / kV * 32 + lane) * kV + i % kV, y);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kU * kV; ++i) {
        const int at = (i / kV * 32 + lane) * kV + i % kV;
        if (at < left) out[at] = convert<Out>(Op::combine(before, convert<Acc>(x[i])));
      }
    }
  }
};

template <class In, bool kAligned>
constexpr int kScanVec = ScanTile<sizeof(In), kAligned>::kVec;
template <class In, bool kAligned>
constexpr int kScanUnroll = ScanTile<sizeof(In), kAligned>::kUnroll;

}  // namespace gpk
