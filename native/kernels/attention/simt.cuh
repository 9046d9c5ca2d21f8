// Attention for every dtype, layout and option: out = softmax(scale q k^T) v in float32. A block
// has 16 queries of one head, four for each warp, and goes through the keys 32 at a time: a lane
// has one key's scores, and for the results the columns lane, lane + 32, ...
// Grid -> data: x tiles of 16 queries, y heads, z sequences.
#pragma once

#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "common/dtype.cuh"
#include "common/shared.cuh"

namespace gpk {

template <class T, class Kv, int kDim>
__global__ void __launch_bounds__(128) attention_simt_kernel(const AttentionArgs args) {
  constexpr int kRows = 16;
  constexpr int kKeys = 32;
  constexpr int kSlots = kDim / 32;
  float* const queries = reinterpret_cast<float*>(dynamic_shared());  // [kRows][kDim]
  float* const keys = queries + kRows * kDim;                         // [kKeys][kDim + 1]
  float* const values = keys + kKeys * (kDim + 1);                    // [kKeys][kDim]
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread & 31;
  const int warp = thread >> 5;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / args.group;
  const Sequence sequence(args, static_cast<int>(blockIdx.z));
  const int first = static_cast<int>(blockIdx.x) * kRows;
  if (first >= sequence.q_len) return;
  const int rows = min(kRows, sequence.q_len - first);
  const int from = sequence.from(args, first);
  const int to = sequence.to(args, first + rows - 1);

  for (int i = thread; i < kRows * args.dim; i += 128) {
    const int row = i / args.dim;
    const int column = i - row * args.dim;
    queries[row * kDim + column] =
        row < rows ? to_compute(static_cast<const T*>(
                         args.q)[sequence.query(args, first + row, head) + column])
                   : 0.0f;
  }
  float o[4][kSlots];
  float largest[4];
  float sum[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    largest[r] = minus_infinity();
    sum[r] = 0.0f;
#pragma unroll
    for (int c = 0; c < kSlots; ++c) o[r][c] = 0.0f;
  }
  for (int key = from; key < to; key += kKeys) {
    const int count = min(kKeys, to - key);
    __syncthreads();
    for (int i = thread; i < count * args.dim; i += 128) {
      const int row = i / args.dim;
      const int column = i - row * args.dim;
      keys[row * (kDim + 1) + column] = to_compute(static_cast<const Kv*>(
          args.k)[sequence.key(args, args.k_at, key + row, kv_head) + column]);
    }
    for (int i = thread; i < count * args.value_dim; i += 128) {
      const int row = i / args.value_dim;
      const int column = i - row * args.value_dim;
      values[row * kDim + column] = to_compute(static_cast<const Kv*>(
          args.v)[sequence.key(args, args.v_at, key + row, kv_head) + column]);
    }
    __syncthreads();
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (lane < count)
      for (int i = 0; i < args.dim; ++i) {
        const float k = keys[lane * (kDim + 1) + i];
#pragma unroll
        for (int r = 0; r < 4; ++r) s[r] = fmaf(queries[(warp * 4 + r) * kDim + i], k, s[r]);
      }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first + warp * 4 + r;
      s[r] = lane < count && row < sequence.q_len
                 ? sequence.score(args, s[r], head, row, key + lane)
                 : minus_infinity();
      float top = s[r];
#pragma unroll
      for (int o_ = 16; o_ > 0; o_ /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o_));
      top = fmaxf(top, largest[r]);
      const float base = top == minus_infinity() ? 0.0f : top;
      const float factor = exp2f(largest[r] - base);
      largest[r] = top;
      s[r] = exp2f(s[r] - base);
      sum[r] = fmaf(sum[r], factor, s[r]);
#pragma unroll
      for (int c = 0; c < kSlots; ++c) o[r][c] *= factor;
    }
    for (int j = 0; j < count; ++j) {
      float p[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) p[r] = __shfl_sync(0xffffffffu, s[r], j);
#pragma unroll
      for (int c = 0; c < kSlots; ++c) {
        if (lane + 32 * c >= args.value_dim) continue;
        const float v = values[j * kDim + lane + 32 * c];
#pragma unroll
        for (int r = 0; r < 4; ++r) o[r][c] = fmaf(p[r], v, o[r][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = first + warp * 4 + r;
    float total = sum[r];
#pragma unroll
    for (int o_ = 16; o_ > 0; o_ /= 2) total += __shfl_xor_sync(0xffffffffu, total, o_);
    if (row >= sequence.q_len) continue;
    const float factor =
        inverse_sum(total, largest[r], args.sinks != nullptr ? args.sinks + head : nullptr) *
        args.v_scale;
    T* const out = static_cast<T*>(args.out) + sequence.result(args, row, head);
#pragma unroll
    for (int c = 0; c < kSlots; ++c)
      if (lane + 32 * c < args.value_dim) out[lane + 32 * c] = convert<T>(o[r][c] * factor);
  }
}

}  // namespace gpk
