// The top_k experts of each token by its logits [tokens, num_experts], and their weights: scores
// (softmax or sigmoid of the logits) of the chosen, over their sum where renormalised, times scale.
// Chosen by logit; with a bias by score + bias. With groups only experts of the top_groups best
// groups: by their largest value, with a bias by the sum of their two largest.
// A warp per token; lane l holds experts l, l + 32, ...: kPer of them. Equal values: the lower
// index first; NaN last. Numerics: float32; a token's result does not depend on the others.
#pragma once

#include "args/moe.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

// Unsigned integers in the order of floats, from 1 (NaN) on; and back.
__device__ __forceinline__ unsigned ordered(float x) {
  if (x != x) return 1;
  const unsigned bits = __float_as_uint(x + 0.0f);  // -0 is 0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_ordered(unsigned order) {
  return __uint_as_float((order >> 31) != 0 ? order & 0x7fffffffu : ~order);
}

// The larger order, of equal ones that with the lower index.
__device__ __forceinline__ unsigned long long ranked(unsigned order, int index) {
  return static_cast<unsigned long long>(order) << 32 |
         (0xffffffffu - static_cast<unsigned>(index));
}
__device__ __forceinline__ int index_of(unsigned long long rank) {
  return static_cast<int>(0xffffffffu - static_cast<unsigned>(rank));
}

__device__ __forceinline__ unsigned long long warp_max(unsigned long long x) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, x, o);
    x = other > x ? other : x;
  }
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
  return x;
}
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

template <int kPer>
struct RouteRow {
  float score[kPer];
  unsigned order[kPer];  // of the selection; 0: not to be chosen
  int lane;

  // The best of this warp's experts in [first, last), 0 if there is none; and its score.
  __device__ __forceinline__ unsigned long long best(int first, int last, float& its_score) const {
    unsigned long long mine = 0;
    float mine_score = 0.0f;
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int index = j * 32 + lane;
      const unsigned long long rank = ranked(order[j], index);
      if (order[j] != 0 && index >= first && index < last && rank > mine) {
        mine = rank;
        mine_score = score[j];
      }
    }
    const unsigned long long all = warp_max(mine);
    its_score = __shfl_sync(0xffffffffu, mine_score, index_of(all) & 31);
    return all;
  }

  __device__ __forceinline__ void remove(int index) {
#pragma unroll
    for (int j = 0; j < kPer; ++j)
      if (j * 32 + lane == index) order[j] = 0;
  }

  __device__ __forceinline__ void load_scores(const MoeRouteArgs& args, const float (&x)[kPer]) {
    if (args.scoring == kScoreLogits) {
#pragma unroll
      for (int j = 0; j < kPer; ++j) score[j] = x[j];
    } else if (args.scoring == kScoreSigmoid) {
#pragma unroll
      for (int j = 0; j < kPer; ++j) score[j] = 1.0f / (1.0f + expf(-x[j]));
    } else {
      float largest = x[0];
#pragma unroll
      for (int j = 1; j < kPer; ++j) largest = fmaxf(largest, x[j]);
      largest = warp_max(largest);
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kPer; ++j) {
        score[j] = expf(x[j] - largest);
        sum += score[j];
      }
      sum = warp_sum(sum);
#pragma unroll
      for (int j = 0; j < kPer; ++j) score[j] /= sum;
    }
  }

  // Leaves only the experts of the best groups.
  __device__ __forceinline__ void keep_groups(const MoeRouteArgs& args) {
    const int size = args.num_experts / args.num_groups;
    unsigned mine = 0;  // of group `lane`
    for (int g = 0; g < args.num_groups; ++g) {
      const int first = g * size;
      float unused;
      const unsigned long long top = best(first, first + size, unused);
      unsigned value = static_cast<unsigned>(top >> 32);
      if (args.bias != nullptr && size > 1) {
        const RouteRow whole = *this;
        remove(index_of(top));
        const unsigned long long second = best(first, first + size, unused);
        *this = whole;
        value = ordered(from_ordered(value) + from_ordered(static_cast<unsigned>(second >> 32)));
      }
      if (lane == g) mine = value;
    }
    unsigned kept = 0;
    for (int i = 0; i < args.top_groups; ++i) {
      const int group = index_of(warp_max(mine == 0 ? 0 : ranked(mine, lane)));
      kept |= 1u << group;
      if (lane == group) mine = 0;
    }
#pragma unroll
    for (int j = 0; j < kPer; ++j)
      if (j * 32 + lane < args.num_experts && (kept >> ((j * 32 + lane) / size) & 1u) == 0)
        order[j] = 0;
  }
};

template <class T, int kPer>
__global__ void __launch_bounds__(kRouteBlock) moe_route_rows(const MoeRouteArgs args) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const long long token =
      static_cast<long long>(blockIdx.x) * (kRouteBlock / 32) + static_cast<int>(threadIdx.x) / 32;
  if (token >= args.tokens) return;
  const T* const logits = static_cast<const T*>(args.logits) + token * args.logits_row;
  RouteRow<kPer> row;
  row.lane = lane;
  float x[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j)
    x[j] = j * 32 + lane < args.num_experts ? to_compute(logits[j * 32 + lane])
                                            : __int_as_float(0xff800000);
  row.load_scores(args, x);
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int index = j * 32 + lane;
    const bool exists = index < args.num_experts;
    const float value = args.bias == nullptr || !exists ? x[j] : row.score[j] + args.bias[index];
    row.order[j] = exists ? ordered(value) : 0;
  }
  if (args.num_groups > 1) row.keep_groups(args);
  float weight = 0.0f;
  int expert = 0;
  for (int i = 0; i < args.top_k; ++i) {
    float score;
    const int chosen = index_of(row.best(0, args.num_experts, score));
    row.remove(chosen);
    if (lane == i) {
      weight = score;
      expert = chosen;
    }
  }
  if (args.renormalize != 0) weight /= warp_sum(weight) + 1e-20f;
  if (lane >= args.top_k) return;
  args.weights[token * args.top_k + lane] = weight * args.scale;
  args.experts[token * args.top_k + lane] = expert;
}

}  // namespace gpk
