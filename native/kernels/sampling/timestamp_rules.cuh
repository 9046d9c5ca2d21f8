// out[r, t] = logits[r, t], or -inf where token t may not come next in the transcript of row r:
// suppressed, a timestamp out of its pair or below the newest, text where a timestamp is due, text
// where log(sum(exp(timestamps))) > largest text (ops/sampling/timestamp_rules.h).
// Grid: a block per row, which reads it twice: to compare, and to write. One thread keeps the row's
// history. Numerics: float32, sums in a fixed order.
#pragma once

#include "args/sampling.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ float never() { return __int_as_float(static_cast<int>(0xff800000)); }

// Two ranges of tokens, without those that a list suppresses.
struct AllowedTokens {
  int text_begin, text_end;    // below first_timestamp
  int stamp_begin, stamp_end;  // timestamps
  const unsigned* suppress;
  const unsigned* begin_suppress;  // nullptr: not the first token

  __device__ bool holds(int token) const {
    const bool inside =
        (token >= text_begin && token < text_end) || (token >= stamp_begin && token < stamp_end);
    const unsigned bit = 1u << (token & 31);
    return inside && (suppress[token >> 5] & bit) == 0 &&
           (begin_suppress == nullptr || (begin_suppress[token >> 5] & bit) == 0);
  }
};

__device__ __forceinline__ AllowedTokens allowed_tokens(const TimestampArgs& args, int count,
                                                        int last, int before, int newest) {
  const int first = args.first_timestamp;
  AllowedTokens allowed{0,          first,         first,
                        args.width, args.suppress, count == 0 ? args.begin_suppress : nullptr};
  if (first >= args.width) return allowed;
  const bool after_stamp = count >= 1 && last >= first;
  const bool paired = count < 2 || before >= first;
  if (after_stamp && paired) allowed.stamp_end = first;       // text has to follow
  if (after_stamp && !paired) allowed.text_begin = args.eos;  // another one, or the end
  if (newest >= first) {
    const int lowest = after_stamp && !paired ? newest : newest + 1;
    allowed.stamp_begin = lowest < allowed.stamp_end ? lowest : allowed.stamp_end;
  }
  if (count == 0) {
    allowed.text_end = 0;
    const int end = first + args.max_initial + 1;
    if (args.max_initial >= 0 && end < allowed.stamp_end) allowed.stamp_end = end;
  }
  return allowed;
}

struct Largest {
  __device__ static float of(float a, float b) { return fmaxf(a, b); }
};
struct Sum {
  __device__ static float of(float a, float b) { return a + b; }
};

// Of all threads of the block, in all of them.
template <class Op, int kThreads>
__device__ __forceinline__ float over_block(float x, float nothing, float* shared) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, distance));
  __syncthreads();  // the last use of `shared` is over
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float all = nothing;
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) all = Op::of(all, shared[warp]);
  return all;
}

template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads) timestamp_rules(const TimestampArgs args) {
  __shared__ float shared[kThreads / 32];
  const long long row = blockIdx.x;
  int* const history = args.history + row * args.history_row;
  int count = history[0];
  int last = history[args.history_field];
  int before = history[2 * args.history_field];
  int newest = history[3 * args.history_field];
  if (++count > 0) {
    before = last;
    last = args.tokens[row];
    if (last >= args.first_timestamp) newest = last;
  }
  const AllowedTokens allowed = allowed_tokens(args, count, last, before, newest);
  const T* const x = static_cast<const T*>(args.logits) + row * args.logits_row;
  float text = never();
  float stamp = never();
  for (int t = static_cast<int>(threadIdx.x); t < args.width; t += kThreads) {
    if (!allowed.holds(t)) continue;
    const float value = to_compute(x[t]);
    if (t < args.first_timestamp) {
      text = fmaxf(text, value);
    } else {
      stamp = fmaxf(stamp, value);
    }
  }
  text = over_block<Largest, kThreads>(text, never(), shared);
  stamp = over_block<Largest, kThreads>(stamp, never(), shared);
  float sum = 0.0f;
  if (stamp > never())
    for (int t = args.first_timestamp + static_cast<int>(threadIdx.x); t < args.width;
         t += kThreads)
      if (allowed.holds(t)) sum += expf(to_compute(x[t]) - stamp);
  sum = over_block<Sum, kThreads>(sum, 0.0f, shared);
  const bool due = stamp > never() && stamp + logf(sum) > text;
  T* const out = static_cast<T*>(args.out) + row * args.out_row;
  for (int t = static_cast<int>(threadIdx.x); t < args.width; t += kThreads) {
    const bool kept = allowed.holds(t) && !(due && t < args.first_timestamp);
    out[t] = kept ? x[t] : from_compute<T>(never());
  }
  if (threadIdx.x != 0) return;
  history[0] = count;
  history[args.history_field] = last;
  history[2 * args.history_field] = before;
  history[3 * args.history_field] = newest;
}

}  // namespace gpk
