// What a thread accumulates of a row, for fused functions: add(element, ...) for each element of an
// access in order, end() after the access, result<kSlot>(row) for all threads of the row.
// Numerics: norms and softmax add up as norm.cuh and softmax.cuh do; WideSum adds the elements of
// an access as a tree and those in float64. Every step rounds by itself: elements may come from a
// product that the compiler would contract.
#pragma once

#include "nn/norm.cuh"
#include "nn/softmax.cuh"

namespace gpk {

struct MeanPart {
  float sum = 0.0f;
  __device__ __forceinline__ void add(float e, int) { sum = __fadd_rn(sum, e); }
  __device__ __forceinline__ void end() {}
  template <int kSlot, class R>
  __device__ __forceinline__ float result(const R& row) const {
    return row.template combine<SumOp, kSlot>(sum) / row.length();
  }
};

// Of squares about `mean`.
struct MeanSquarePart {
  float mean = 0.0f;
  float sum = 0.0f;
  __device__ __forceinline__ void add(float e, int) {
    const float d = __fsub_rn(e, mean);
    sum = fmaf(d, d, sum);
  }
  __device__ __forceinline__ void end() {}
  template <int kSlot, class R>
  __device__ __forceinline__ float result(const R& row) const {
    return row.template combine<SumOp, kSlot>(sum) / row.length();
  }
};

// The largest element; kOnline: and the sum of exponentials, in the same pass.
template <class T, bool kOnline>
struct SoftmaxMaxPart {
  Exponentials<T> part;
  __device__ __forceinline__ void add(float e, int) {
    if constexpr (kOnline) {
      part.add(e);
    } else {
      part.largest = fmaxf(part.largest, e);
    }
  }
  __device__ __forceinline__ void end() {}
  template <int kSlot, class R>
  __device__ __forceinline__ float result(const R& row) const {
    return row.template combine<MaxOp, kSlot>(part.largest);
  }
};

template <class T, bool kOnline>
struct SoftmaxSumPart {
  float base;
  float sum = 0.0f;
  __device__ __forceinline__ SoftmaxSumPart(const SoftmaxMaxPart<T, kOnline>& of, float largest)
      : base(largest > minus_infinity() ? largest : 0.0f) {
    if constexpr (kOnline) sum = of.part.relative_to(largest);
  }
  __device__ __forceinline__ void add(float e, int) {
    if constexpr (!kOnline) sum = __fadd_rn(sum, exponential<T>(__fsub_rn(e, base)));
  }
  __device__ __forceinline__ void end() {}
  template <int kSlot, class R>
  __device__ __forceinline__ float result(const R& row) const {
    return row.template combine<SumOp, kSlot>(sum);
  }
};

struct WideSumOp {
  static __device__ __forceinline__ double run(double a, double b) { return a + b; }
};

template <int kV>
struct WideSumPart {
  float part[kV];
  double sum = 0.0;
  __device__ __forceinline__ void add(float e, int v) { part[v] = e; }
  __device__ __forceinline__ void end() {
#pragma unroll
    for (int s = 1; s < kV; s *= 2) {
#pragma unroll
      for (int i = 0; i + s < kV; i += 2 * s) part[i] = __fadd_rn(part[i], part[i + s]);
    }
    sum += static_cast<double>(part[0]);
  }
  template <int kSlot, class R>
  __device__ __forceinline__ double result(const R& row) const {
    return row.template combine<WideSumOp, kSlot>(sum);
  }
};

// NaN if either is; 0 is larger than -0.
template <bool kMax>
struct ExtremeOp {
  static __device__ __forceinline__ float identity() {
    return kMax ? minus_infinity() : -minus_infinity();
  }
  static __device__ __forceinline__ float run(float a, float b) {
    return kMax ? ptx::max_or_nan(a, b) : ptx::min_or_nan(a, b);
  }
};

template <bool kMax>
struct ExtremePart {
  float best = ExtremeOp<kMax>::identity();
  __device__ __forceinline__ void add(float e, int) { best = ExtremeOp<kMax>::run(best, e); }
  __device__ __forceinline__ void end() {}
  template <int kSlot, class R>
  __device__ __forceinline__ float result(const R& row) const {
    return row.template combine<ExtremeOp<kMax>, kSlot>(best);
  }
};

// rsqrt(mean of squares + eps): what norms multiply with.
__device__ __forceinline__ float norm_scale(float mean_square, float eps) {
  return rsqrtf(mean_square + eps);
}

}  // namespace gpk
