// Rows sorted by expert: slot s = t * top_k + j is a copy of row t of x for expert experts[t, j].
// row_map[s] is its place among slots ordered by expert, then by slot; ids out of range come last.
// moe_permute_few: all in one launch, a block per token and one for sizes; each warp ranks a slot
//   by counting all others.
// Else: moe_count (slots per expert in tiles of 256), moe_scan (a block per expert: those of
//   earlier tiles, and sizes), moe_place (a tile per block), moe_copy (rows).
// A row is read once and written top_k times, in words of up to 16 bytes.
#pragma once

#include "args/moe.h"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

template <class Index>
__device__ __forceinline__ int expert_of(const MoePermuteArgs& args, long long slot) {
  const Index id = static_cast<const Index*>(args.experts)[slot];
  return id >= 0 && id < args.num_experts ? static_cast<int>(id) : args.num_experts;
}

__device__ __forceinline__ int warp_total(int x) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

// Exclusive prefix sum over the lanes of a warp.
__device__ __forceinline__ int warp_sum_below(int value, int lane) {
  int sum = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += below;
  }
  return sum - value;
}

// Row `token` of x to `places`, by threads lane, lane + lanes, ...; four words of each in flight.
template <class Word>
__device__ __forceinline__ void copy_row(const MoePermuteArgs& args, long long token,
                                         const int* places, int lane, int lanes) {
  const Word* const from = static_cast<const Word*>(args.x) + token * args.x_row;
  for (long long first = lane; first < args.words; first += 4 * lanes) {
    Word words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (first + i * lanes < args.words) words[i] = from[first + i * lanes];
    for (int j = 0; j < args.top_k; ++j) {
      Word* const to = static_cast<Word*>(args.rows) + places[j] * args.words;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (first + i * lanes < args.words) to[first + i * lanes] = words[i];
    }
  }
}

__device__ __forceinline__ void put_place(const MoePermuteArgs& args, long long slot, int place) {
  args.row_map[slot] = place;
  if (args.slots != nullptr) args.slots[place] = static_cast<int>(slot);
}

// Slots per expert of [first, last), in shared memory; for all threads of the block.
template <class Index>
__device__ __forceinline__ void count_slots(const MoePermuteArgs& args, int* counts,
                                            long long first, long long last) {
  const int t = static_cast<int>(threadIdx.x);
  for (int e = t; e <= args.num_experts; e += kPermuteBlock) counts[e] = 0;
  __syncthreads();
  for (long long s = first + t; s < last; s += kPermuteBlock)
    atomicAdd(counts + expert_of<Index>(args, s), 1);
  __syncthreads();
}

template <class Index, class Word>
__global__ void __launch_bounds__(kPermuteBlock) moe_permute_few(const MoePermuteArgs args) {
  __shared__ int shared[kMaxExperts + 1];
  const int t = static_cast<int>(threadIdx.x);
  const long long token = blockIdx.x;
  if (token == args.tokens) {
    count_slots<Index>(args, shared, 0, args.num_slots);
    for (int e = t; e < args.num_experts; e += kPermuteBlock) args.sizes[e] = shared[e];
    return;
  }
  for (int j = t / 32; j < args.top_k; j += kPermuteBlock / 32) {
    const long long slot = token * args.top_k + j;
    const int expert = expert_of<Index>(args, slot);
    int before = 0;
#pragma unroll 4
    for (long long s = t & 31; s < args.num_slots; s += 32) {
      const int other = expert_of<Index>(args, s);
      before += other < expert || (other == expert && s < slot) ? 1 : 0;
    }
    before = warp_total(before);
    if ((t & 31) == 0) {
      shared[j] = before;
      put_place(args, slot, before);
    }
  }
  __syncthreads();
  if (args.rows != nullptr) copy_row<Word>(args, token, shared, t, kPermuteBlock);
}

template <class Index>
__global__ void __launch_bounds__(kPermuteBlock) moe_count(const MoePermuteArgs args) {
  __shared__ int counts[kMaxExperts + 1];
  const long long first = static_cast<long long>(blockIdx.x) * kPermuteBlock;
  count_slots<Index>(args, counts, first, min(first + kPermuteBlock, args.num_slots));
  for (int e = static_cast<int>(threadIdx.x); e <= args.num_experts; e += kPermuteBlock)
    args.counts[static_cast<long long>(e) * args.num_tiles + blockIdx.x] = counts[e];
}

__global__ void __launch_bounds__(kPermuteBlock) moe_scan(const MoePermuteArgs args) {
  __shared__ int sums[kPermuteBlock / 32];
  const int t = static_cast<int>(threadIdx.x);
  const int lane = t & 31;
  int* const counts = args.counts + static_cast<long long>(blockIdx.x) * args.num_tiles;
  int total = 0;
  for (int first = 0; first < args.num_tiles; first += kPermuteBlock) {
    const int value = first + t < args.num_tiles ? counts[first + t] : 0;
    const int below = warp_sum_below(value, lane);
    if (lane == 31) sums[t / 32] = below + value;
    __syncthreads();
    int earlier = total;
#pragma unroll
    for (int w = 0; w < kPermuteBlock / 32; ++w) {
      if (w < t / 32) earlier += sums[w];
      total += sums[w];
    }
    if (first + t < args.num_tiles) counts[first + t] = earlier + below;
    __syncthreads();
  }
  if (t != 0) return;
  args.totals[blockIdx.x] = total;
  if (static_cast<int>(blockIdx.x) < args.num_experts) args.sizes[blockIdx.x] = total;
}

template <class Index>
__global__ void __launch_bounds__(kPermuteBlock) moe_place(const MoePermuteArgs args) {
  __shared__ int firsts[kMaxExperts + 1];  // places of experts
  __shared__ int ids[kPermuteBlock];
  const int t = static_cast<int>(threadIdx.x);
  const long long slot = static_cast<long long>(blockIdx.x) * kPermuteBlock + t;
  const int expert = slot < args.num_slots ? expert_of<Index>(args, slot) : -1;
  ids[t] = expert;
  for (int e = t; e <= args.num_experts; e += kPermuteBlock) firsts[e] = args.totals[e];
  __syncthreads();
  if (t < 32) {  // each lane has consecutive experts
    const int count = (args.num_experts + 32) / 32;
    int sum = 0;
    for (int e = t * count; e < min((t + 1) * count, args.num_experts + 1); ++e) sum += firsts[e];
    sum = warp_sum_below(sum, t);
    for (int e = t * count; e < min((t + 1) * count, args.num_experts + 1); ++e) {
      const int size = firsts[e];
      firsts[e] = sum;
      sum += size;
    }
  }
  __syncthreads();
  if (expert < 0) return;
  int rank = 0;
#pragma unroll 8
  for (int i = 0; i < t; ++i) rank += ids[i] == expert ? 1 : 0;
  const int earlier = args.counts[static_cast<long long>(expert) * args.num_tiles + blockIdx.x];
  put_place(args, slot, firsts[expert] + earlier + rank);
}

template <class Word>
__global__ void __launch_bounds__(kPermuteBlock) moe_copy(const MoePermuteArgs args) {
  const int t = static_cast<int>(threadIdx.x);
  const long long token =
      static_cast<long long>(blockIdx.x) * (kPermuteBlock / args.lanes) + t / args.lanes;
  if (token >= args.tokens) return;
  copy_row<Word>(args, token, args.row_map + token * args.top_k, t % args.lanes, args.lanes);
}

}  // namespace gpk
