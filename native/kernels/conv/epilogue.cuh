// From a sum in float32 to the output: activation(sum + bias) + residual, rounded once.
#pragma once

#include "args/conv.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ float conv_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ float conv_activate(unsigned activation, float x) {
  switch (activation) {
    case kConvRelu: return x < 0.0f ? 0.0f : x;
    case kConvGelu: {
      const float s = conv_sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
      return s == 0.0f ? 0.0f * x : x * s;
    }
    case kConvGeluErf: return 0.5f * x * erfcf(-0.7071067811865476f * x);
    case kConvSilu: return x * conv_sigmoid(x);
    case kConvTanh: return tanhf(x);
    default: return x;
  }
}

// `channel` counts over all groups.
template <class T>
__device__ __forceinline__ float conv_finish(const ConvArgs& args, float sum, int channel) {
  if (args.bias != nullptr) sum += to_compute(static_cast<const T*>(args.bias)[channel]);
  return conv_activate(args.activation, sum);
}

}  // namespace gpk
