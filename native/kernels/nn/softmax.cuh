// out = exp(s) / sum(exp(s)) with s = scale * x where the mask is true; elsewhere out is 0. With
// kLog the logarithm of it, -inf where the mask is false. A row without a true element is all 0
// (kLog: -inf).
// softmax_rows: contiguous rows (row.cuh). softmax_columns: x is [outer, width, inner] and the
// softmax runs along the middle; a block has 32 columns and 8 threads for each of them.
// Numerics: float32, exponents relative to the largest s. Differences round by themselves, so that
// fused functions (fused_rows.cuh) give the same bits.
#pragma once

#include "nn/row.cuh"

namespace gpk {

__device__ __forceinline__ const bool* mask_row(const SoftmaxArgs& args, long long row) {
  long long at = 0;
  for (int d = args.mask_layout.num_dims - 1; d >= 0; --d) {
    const long long size = args.mask_layout.size[d];
    at += row % size * args.mask_layout.stride[d];
    row /= size;
  }
  return args.mask + at;
}

// exp(x), as exact as T can show.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (kIsNarrowFloat<T>) {
    return __expf(x);
  } else {
    return expf(x);
  }
}

// Running maximum and sum of exponentials.
template <class T>
struct Exponentials {
  float largest;
  float sum;

  __device__ __forceinline__ Exponentials() : largest(minus_infinity()), sum(0.0f) {}
  __device__ __forceinline__ Exponentials(float top, float total) : largest(top), sum(total) {}

  __device__ __forceinline__ void add(float s) {
    if (s > largest) {
      sum *= exponential<T>(__fsub_rn(largest, s));
      largest = s;
    }
    if (s > minus_infinity()) sum = __fadd_rn(sum, exponential<T>(__fsub_rn(s, largest)));
    if (s != s) sum = s;  // NaN
  }
  // The sum as it is with a larger maximum.
  __device__ __forceinline__ float relative_to(float top) const {
    return largest > minus_infinity() ? __fmul_rn(sum, exponential<T>(largest - top)) : sum;
  }
  __device__ __forceinline__ void merge(const Exponentials& other) {
    const float top = fmaxf(largest, other.largest);
    if (top > minus_infinity()) {
      sum = sum * exponential<T>(largest - top) + other.sum * exponential<T>(other.largest - top);
    } else {
      sum += other.sum;
    }
    largest = top;
  }
};

// From s to the result, given the largest s and the sum of a row.
template <class T, bool kLog>
class SoftmaxResult {
 public:
  __device__ __forceinline__ SoftmaxResult(float largest, float sum)
      : base_(largest > minus_infinity() ? largest : 0.0f) {
    if constexpr (kLog) {
      if (sum != 0.0f) base_ += logf(sum);
    } else {
      factor_ = sum == 0.0f ? 0.0f : 1.0f / sum;
    }
  }
  __device__ __forceinline__ float operator()(float s) const {
    if constexpr (kLog) {
      return __fsub_rn(s, base_);
    } else {
      return __fmul_rn(exponential<T>(__fsub_rn(s, base_)), factor_);
    }
  }

 private:
  float base_;
  float factor_ = 1.0f;
};

template <class T, bool kLog, bool kMasked, int kV, int kA>
__global__ void __launch_bounds__(kMaxRowGroup) softmax_rows(const SoftmaxArgs args) {
  __shared__ float shared[2][2][16];
  const int group = args.group;
  RowPlace at(group);
  RowStream<T, kV, kA, 1> stream({{args.x, args.x_row}}, at, args.rows, args.width,
                                 shared_address(dynamic_shared()));
  for (int turn = 0; at.first < args.rows; at.next(), turn ^= 1) {
    const long long row = at.row < args.rows ? at.row : 0;
    const bool* mask = kMasked ? mask_row(args, row) : nullptr;
    stream.wait();
    const Row<T, kV, kA> x = stream.template get<0>(at);
    stream.next(at);
    const auto score = [&](float e, int i) {
      if constexpr (kMasked)
        if (!mask[i * args.mask_layout.step]) return minus_infinity();
      return e * args.scale;
    };

    float largest = minus_infinity();
    float sum = 0.0f;
    if constexpr (kA > 0) {
      x.each([&](const float (&e)[kV], int i, int) {
#pragma unroll
        for (int v = 0; v < kV; ++v) largest = fmaxf(largest, score(e[v], i + v));
      });
      largest = combine<MaxOp>(largest, group, shared[turn][0]);
      const float base = largest > minus_infinity() ? largest : 0.0f;
      x.each([&](const float (&e)[kV], int i, int) {
#pragma unroll
        for (int v = 0; v < kV; ++v)
          sum = __fadd_rn(sum, exponential<T>(__fsub_rn(score(e[v], i + v), base)));
      });
    } else {  // one pass over memory
      Exponentials<T> part;
      x.each([&](const float (&e)[kV], int i, int) {
#pragma unroll
        for (int v = 0; v < kV; ++v) part.add(score(e[v], i + v));
      });
      largest = combine<MaxOp>(part.largest, group, shared[turn][0]);
      sum = part.relative_to(largest);
    }
    const SoftmaxResult<T, kLog> result(largest, combine<SumOp>(sum, group, shared[turn][1]));
    x.each([&](const float (&e)[kV], int i, int) {
      float y[kV];
#pragma unroll
      for (int v = 0; v < kV; ++v) y[v] = result(score(e[v], i + v));
      store_floats<T, kV>(static_cast<T*>(args.out) + row * args.out_row + i, y);
    });
    if constexpr (!RowStream<T, kV, kA, 1>::kAhead) break;
  }
}

template <class T, bool kLog, bool kMasked>
__global__ void __launch_bounds__(256) softmax_columns(const SoftmaxArgs args) {
  __shared__ float largest[8][32];
  __shared__ float sums[8][32];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int y = static_cast<int>(threadIdx.x) / 32;
  const long long column = static_cast<long long>(blockIdx.x) * 32 + lane;
  const bool active = column < args.rows;
  const long long at =
      active ? column / args.inner * args.width * args.inner + column % args.inner : 0;
  const bool* mask = kMasked && active ? mask_row(args, column) : nullptr;
  const T* x = static_cast<const T*>(args.x) + at;
  T* out = static_cast<T*>(args.out) + at;
  const int width = active ? args.width : 0;
  const auto score = [&](int i) {
    if constexpr (kMasked)
      if (!mask[i * args.mask_layout.step]) return minus_infinity();
    return to_compute(x[i * args.inner]) * args.scale;
  };
  Exponentials<T> part;
#pragma unroll 4
  for (int i = y; i < width; i += 8) part.add(score(i));
  largest[y][lane] = part.largest;
  sums[y][lane] = part.sum;
  __syncthreads();
  Exponentials<T> all;
#pragma unroll
  for (int j = 0; j < 8; ++j) all.merge({largest[j][lane], sums[j][lane]});
  const SoftmaxResult<T, kLog> result(all.largest, all.sum);
#pragma unroll 4
  for (int i = y; i < width; i += 8) out[i * args.inner] = convert<T>(result(score(i)));
}

}  // namespace gpk
