// New keys and values to their slots of a cache: k_cache[slot(t), h] = rope(rmsnorm(k[t, h])) and
// v_cache[slot(t), h] = v[t, h]; q_out[t, h] = rope(rmsnorm(q[t, h])). Norm and rotation
// (half-split, angles from tables by position) are optional. C is T, or e4m3 of x / scale,
// saturated. Tokens whose slot is not in the cache are skipped; positions beyond the tables give
// NaN. Layout: KvWriteArgs. Grid: `group` threads per head of q, k and v; a thread has pairs of
// accesses of kV elements, the two elements of a rotation in one thread. q_out may be q. Numerics:
// float32, rounded once. The order of a sum depends on dim and kV only.
#pragma once

#include "args/kv_cache.h"
#include "common/dependent_launch.cuh"
#include "common/floats.cuh"

namespace gpk {

using namespace kernels;

template <class T, int kV>
__device__ __forceinline__ void load_either(const void* p, long long at, bool wide,
                                            float (&x)[kV]) {
  if (wide) {
    load_floats<float, kV>(static_cast<const float*>(p) + at, x);
  } else {
    load_floats<T, kV>(static_cast<const T*>(p) + at, x);
  }
}

__device__ __forceinline__ long long index_at(const void* p, long long at, bool wide) {
  return wide ? static_cast<const long long*>(p)[at] : static_cast<const int*>(p)[at];
}

// One head of a token: where it is, and what happens to it.
template <class T>
struct HeadWork {
  const T* from = nullptr;
  const void* weight = nullptr;
  bool wide_weight = false;
  bool rotates = false;
};

template <class T, class C, int kV>
class HeadWriter {
 public:
  __device__ __forceinline__ HeadWriter(const KvWriteArgs& args, long long row)
      : args_(args), active_(row < args.num_rows) {
    if (!active_) return;
    const int heads = args.q_heads + 2 * args.kv_heads;
    token_ = row / heads;
    head_ = static_cast<int>(row % heads);
    if (head_ < args.q_heads) {
      work_ = {at(args.q), args.q_weight, (args.wide & kWideQWeight) != 0, args.half > 0};
      return;
    }
    head_ -= args.q_heads;
    is_value_ = head_ >= args.kv_heads;
    if (is_value_) head_ -= args.kv_heads;
    is_cached_ = true;
    work_.from = at(is_value_ ? args.v : args.k);
    if (!is_value_) {
      work_.weight = args.k_weight;
      work_.wide_weight = (args.wide & kWideKWeight) != 0;
      work_.rotates = args.half > 0;
    }
    slot_ = index_at(args.slots, token_, (args.wide & kWideSlots) != 0);
    active_ = slot_ >= 0 && slot_ < args.num_slots;
  }

  // For all threads of a warp.
  __device__ __forceinline__ void normalise(int lane) {
    float sum = 0.0f;
    if (active_ && work_.weight != nullptr) {
      each(lane, [&](int a, int b, int) {
        float x[2][kV];
        load(a, b, x);
#pragma unroll
        for (int v = 0; v < kV; ++v) sum += x[0][v] * x[0][v] + x[1][v] * x[1][v];
      });
    }
    for (int o = args_.group / 2; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    factor_ = rsqrtf(sum / static_cast<float>(args_.dim) + args_.eps);
  }

  __device__ __forceinline__ void write(int lane) const {
    if (!active_) return;
    const long long position =
        work_.rotates ? index_at(args_.positions, token_, (args_.wide & kWidePositions) != 0) : 0;
    each(lane, [&](int a, int b, int pair) {
      float x[2][kV];
      load(a, b, x);
      if (work_.weight != nullptr) {
        scale(a, x[0]);
        scale(b, x[1]);
      }
      if (work_.rotates && pair < args_.half) rotate(position, pair, x);
      store(a, x[0]);
      store(b, x[1]);
    });
  }

 private:
  __device__ __forceinline__ const T* at(const TokenHeads& of) const {
    return static_cast<const T*>(of.data) + token_ * of.token + head_ * of.head;
  }

  // f(a, b, pair): two accesses at a and b; the first `half` pairs are those that are rotated.
  template <class F>
  __device__ __forceinline__ void each(int lane, const F& f) const {
    const int tail = args_.dim / 2 - args_.half;
    for (int pair = lane * kV; pair < args_.dim / 2; pair += args_.group * kV) {
      const bool rotated = pair < args_.half;
      const int a = rotated ? pair : args_.half + pair;
      f(a, a + (rotated ? args_.half : tail), pair);
    }
  }

  __device__ __forceinline__ void load(int a, int b, float (&x)[2][kV]) const {
    load_floats<T, kV>(work_.from + a, x[0]);
    load_floats<T, kV>(work_.from + b, x[1]);
  }

  __device__ __forceinline__ void scale(int i, float (&x)[kV]) const {
    float weight[kV];
    load_either<T, kV>(work_.weight, i, work_.wide_weight, weight);
#pragma unroll
    for (int v = 0; v < kV; ++v) x[v] = x[v] * factor_ * (args_.offset + weight[v]);
  }

  __device__ __forceinline__ void rotate(long long position, int pair, float (&x)[2][kV]) const {
    float cos[kV];
    float sin[kV];
    if (position < 0 || position >= args_.table_rows) {
#pragma unroll
      for (int v = 0; v < kV; ++v) cos[v] = sin[v] = __int_as_float(0x7fffffff);
    } else {
      const bool wide = (args_.wide & kWideTables) != 0;
      load_either<T, kV>(args_.cos, position * args_.cos_row + pair, wide, cos);
      load_either<T, kV>(args_.sin, position * args_.sin_row + pair, wide, sin);
    }
#pragma unroll
    for (int v = 0; v < kV; ++v) {
      const float a = x[0][v];
      const float b = x[1][v];
      x[0][v] = a * cos[v] - b * sin[v];
      x[1][v] = b * cos[v] + a * sin[v];
    }
  }

  __device__ __forceinline__ void store(int i, float (&x)[kV]) const {
    if (!is_cached_) {
      store_floats<T, kV>(
          static_cast<T*>(args_.q_out) + token_ * args_.q_out_token + head_ * args_.q_out_head + i,
          x);
      return;
    }
    const CacheSlots& cache = is_value_ ? args_.v_cache : args_.k_cache;
    if constexpr (!kIsSame<T, C>) {
      const float by = cache.scale == nullptr ? cache.scale_value : *cache.scale;
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        const float y = __fdiv_rn(x[v], by);
        x[v] = y > 448.0f ? 448.0f : (y < -448.0f ? -448.0f : y);
      }
    }
    store_floats<C, kV>(static_cast<C*>(cache.data) + slot_ / args_.page * cache.block +
                            slot_ % args_.page * cache.slot + head_ * cache.head + i,
                        x);
  }

  const KvWriteArgs& args_;
  bool active_;
  bool is_cached_ = false;
  bool is_value_ = false;
  int head_ = 0;
  long long token_ = 0;
  long long slot_ = 0;
  float factor_ = 1.0f;
  HeadWork<T> work_;
};

template <class T, class C, int kV>
__global__ void __launch_bounds__(256) kv_write(const KvWriteArgs args) {
  start_dependent();
  const long long item = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  const int lane = static_cast<int>(item & (args.group - 1));
  HeadWriter<T, C, kV> head(args, item / args.group);
  if (args.q_weight != nullptr || args.k_weight != nullptr) head.normalise(lane);
  head.write(lane);
}

}  // namespace gpk
