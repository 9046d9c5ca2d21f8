// From accumulator to C, each step only where its flag is set, in this order:
//   v = alpha * scale_a[i] * scale_b[j] * sum
//   v = v + bias[j]
//   v = activation(v)
//   v = v + beta * residual[i, j]
// in float32; bias and residual have the type of C. Rounded once, at the store. i and j are those
// of C even where a kernel computes C^T. Strides are in elements; a scalar scale has step 0, a null
// one is 1.
#pragma once

#include "args/matmul.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ float fast_sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + __expf(-x));
}

__device__ __forceinline__ float combined_scale(const EpilogueArgs& args, long long i,
                                                long long j) {
  float scale = args.alpha;
  if (args.scale_a != nullptr) scale *= args.scale_a[i * args.scale_a_step];
  if (args.scale_b != nullptr) scale *= args.scale_b[j * args.scale_b_step];
  return scale;
}

template <unsigned kActivation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kActivation == kActivationRelu) return x < 0.0f ? 0.0f : x;
  if constexpr (kActivation == kActivationGelu) {
    const float s = fast_sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
    return s == 0.0f ? 0.0f * x : x * s;
  }
  if constexpr (kActivation == kActivationSilu) {
    const float s = fast_sigmoid(x);
    return s == 0.0f ? 0.0f * x : x * s;
  }
  if constexpr (kActivation == kActivationGeluErf)
    return 0.5f * x * erfcf(-0.7071067811865476f * x);
  return x;
}

}  // namespace gpk
