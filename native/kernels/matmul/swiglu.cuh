// result[i, j] = silu(g) * u + residual[i, j], with g = both[i, j] + bias[j] and
// u = both[i, n + j] + bias[n + j]: the pass after the GEMM of a SwiGLU pair.
// both is contiguous, [rows, 2 n], in the accumulator type; the others have arbitrary strides. One
// thread per element; neighbours differ in j. Computed in float32 (float64 for float64), rounded
// once.
#pragma once

#include "matmul/arithmetic.cuh"

namespace gpk {

__device__ __forceinline__ float swiglu_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ double swiglu_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

template <class T>
__global__ void __launch_bounds__(256) swiglu_kernel(SwigluArgs args) {
  using Acc = typename Arithmetic<T>::Acc;
  const long long at = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= args.rows * args.n) return;
  const long long i = at / args.n;
  const long long j = at - i * args.n;
  const Acc* row = static_cast<const Acc*>(args.both) + 2 * i * args.n;
  Acc gate = row[j];
  Acc up = row[args.n + j];
  if (args.bias != nullptr) {
    const T* bias = static_cast<const T*>(args.bias);
    gate += to_compute(bias[j * args.bias_step]);
    up += to_compute(bias[(args.n + j) * args.bias_step]);
  }
  Acc value = gate * swiglu_sigmoid(gate) * up;
  if (args.residual != nullptr)
    value +=
        to_compute(static_cast<const T*>(args.residual)[i * args.residual_m + j * args.residual_n]);
  static_cast<T*>(args.result)[i * args.result_m + j * args.result_n] = from_compute<T>(value);
}

}  // namespace gpk
