// Split-K reduction and epilogue:
// C[batch, i, j] = epilogue(sum over splits, in order, of partial[split][batch][row][column]).
// partial is contiguous; with `swap` its rows are the columns of C. args.m and args.n, c_m and c_n
// are those of partial. C has arbitrary strides, or (kVec columns at once) rows of aligned vectors.
//   finish:      a thread computes kVec elements of one row. Grid: x columns, y rows.
//   finish_warp: a warp per element, lanes take splits round-robin, then a tree: for many splits.
// Arithmetic is in float32 for float32 sums, in float64 for float64 and integers. Flags are those
// of matmul/epilogue.cuh, at run time: this pass is memory bound.
#pragma once

#include "common/vec.cuh"
#include "matmul/arithmetic.cuh"
#include "matmul/epilogue.cuh"

namespace gpk {

constexpr int kFinishThreads = 256;

// The epilogue's arithmetic type, and the number of elements per thread.
template <class Acc>
struct FinishMath {
  using Type = double;
  static constexpr int kVec = 1;
};
template <>
struct FinishMath<float> {
  using Type = float;
  static constexpr int kVec = 4;
};
template <class R>
struct FinishMath<Complex<R>> {
  using Type = Complex<R>;
  static constexpr int kVec = 1;
};

__device__ __forceinline__ float times(float x, float by) { return x * by; }
__device__ __forceinline__ double times(double x, float by) { return x * by; }
template <class R>
__device__ __forceinline__ Complex<R> times(Complex<R> x, float by) {
  return {x.re * by, x.im * by};
}

// Calls: copies of them for every element make up most of the code otherwise.
__device__ __noinline__ float gelu_erf(float x) { return activate<kActivationGeluErf>(x); }
__device__ __noinline__ double gelu_erf(double x) {
  return 0.5 * x * erfc(-0.7071067811865476 * x);
}

__device__ __forceinline__ float activated(unsigned activation, float x) {
  switch (activation) {
    case kActivationRelu: return activate<kActivationRelu>(x);
    case kActivationGelu: return activate<kActivationGelu>(x);
    case kActivationSilu: return activate<kActivationSilu>(x);
    case kActivationGeluErf: return gelu_erf(x);
    default: return x;
  }
}
__device__ __forceinline__ double activated(unsigned activation, double x) {
  if (activation == kActivationRelu) return x < 0.0 ? 0.0 : x;
  if (activation == 0) return x;
  if (activation == kActivationGeluErf) return gelu_erf(x);
  const double y =
      activation == kActivationSilu ? x : 1.5957691216057308 * (x + 0.044715 * x * x * x);  // gelu
  const double s = 1.0 / (1.0 + exp(-y));
  return s == 0.0 ? 0.0 * x : x * s;
}
template <class R>
__device__ __forceinline__ Complex<R> activated(unsigned, Complex<R> x) {
  return x;
}

template <class Acc, class C>
__device__ __forceinline__ C finish_value(const EpilogueArgs& args, unsigned flags, Acc sum,
                                          long long i, long long j, long long batch) {
  using V = typename FinishMath<Acc>::Type;
  if (flags == 0) return from_compute<C>(sum);
  V v = convert<V>(sum);
  if ((flags & kEpilogueScales) != 0) {
    v = times(v, combined_scale(args, i, j));
  } else if ((flags & kEpilogueAlpha) != 0) {
    v = times(v, args.alpha);
  }
  if ((flags & kEpilogueBias) != 0)
    v = v + convert<V>(static_cast<const C*>(args.bias)[j * args.bias_step]);
  v = activated(flags >> kEpilogueActivationShift, v);
  if ((flags & kEpilogueResidual) != 0) {
    const long long at = batch * args.residual_batch + i * args.residual_m + j * args.residual_n;
    v = v + times(convert<V>(static_cast<const C*>(args.residual)[at]), args.beta);
  }
  return from_compute<C>(v);
}

// bool: OR.
template <class Acc, class C>
__device__ __forceinline__ Acc add_sums(Acc x, Acc y) {
  if constexpr (kIsBool<C>) {
    return x | y;
  } else {
    return x + y;
  }
}

template <class Acc, class C>
__global__ void __launch_bounds__(kFinishThreads)
    matmul_finish_kernel(MatmulArgs args, EpilogueArgs epilogue, unsigned flags, int swap,
                         int vector_load, int vector_store) {
  constexpr int kVec = FinishMath<Acc>::kVec;
  const long long column = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kVec;
  const long long rows = args.num_batches * args.m;
  if (column >= args.n) return;
  const int count = static_cast<int>(args.n - column < kVec ? args.n - column : kVec);
  for (long long row = static_cast<long long>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<long long>(gridDim.y) * blockDim.y) {
    Vec<Acc, kVec> sum{};
    const Acc* from = static_cast<const Acc*>(args.partial) + row * args.n + column;
    for (long long part = 0; part < args.splits; ++part, from += rows * args.n) {
      if (vector_load != 0) {
        const Vec<Acc, kVec> x = load_vec<Acc, kVec>(from);
#pragma unroll
        for (int e = 0; e < kVec; ++e) sum.v[e] = add_sums<Acc, C>(sum.v[e], x.v[e]);
      } else {
#pragma unroll
        for (int e = 0; e < kVec; ++e)
          if (e < count) sum.v[e] = add_sums<Acc, C>(sum.v[e], from[e]);
      }
    }
    const long long batch = row / args.m;
    const long long m = row - batch * args.m;
    C* to =
        static_cast<C*>(args.c) + batch_offsets(args, batch).c + m * args.c_m + column * args.c_n;
    Vec<C, kVec> result;
#pragma unroll
    for (int e = 0; e < kVec; ++e) {
      if (e >= count) continue;
      result.v[e] = finish_value<Acc, C>(epilogue, flags, sum.v[e], swap != 0 ? column + e : m,
                                         swap != 0 ? m : column + e, batch);
      if (vector_store == 0) to[e * args.c_n] = result.v[e];
    }
    if (vector_store != 0) store_vec<C, kVec>(to, result);
  }
}

template <class Acc, class C>
__global__ void __launch_bounds__(kFinishThreads)
    matmul_finish_warp_kernel(MatmulArgs args, EpilogueArgs epilogue, unsigned flags, int swap) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long output =
      static_cast<long long>(blockIdx.x) * (kFinishThreads / 32) + threadIdx.x / 32;
  const long long outputs = args.num_batches * args.m * args.n;
  if (output >= outputs) return;
  const Acc* partial = static_cast<const Acc*>(args.partial) + output;
  Acc sum{};
#pragma unroll 4
  for (long long part = lane; part < args.splits; part += 32)
    sum = add_sums<Acc, C>(sum, partial[part * outputs]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum = add_sums<Acc, C>(sum, shuffle_down(sum, distance));
  if (lane != 0) return;
  const long long row = output / args.n;
  const long long column = output - row * args.n;
  const long long batch = row / args.m;
  const long long m = row - batch * args.m;
  static_cast<C*>(args.c)[batch_offsets(args, batch).c + m * args.c_m + column * args.c_n] =
      finish_value<Acc, C>(epilogue, flags, sum, swap != 0 ? column : m, swap != 0 ? m : column,
                           batch);
}

}  // namespace gpk
