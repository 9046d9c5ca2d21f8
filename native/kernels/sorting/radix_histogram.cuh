// Counts of every 8-bit digit of every row, in one read of the keys; then, in the last block of a
// row, the exclusive sums over the 256 bins: where each digit's run starts in the sorted row. keys:
// rows x len, contiguous. counts: rows x sizeof(K) x 256, zeroed. done: one zeroed word per row.
// active: bit p is set when digit p varies within some row, so that pass p has work to do. Grid:
// rows * blocks_per_row, each block one piece of one row. Shared: sizeof(K) x 256 x copies counts;
// lane l counts in copy l modulo copies, so that with 32 copies every lane has its own bank.
// Integer atomics only: the order does not matter.
#pragma once

#include "sorting/key.cuh"

namespace gpk {

// One block's piece; the key kind is a template parameter, so that encoding takes no branches.
template <class K, int kThreads, KeyKind kKind>
__device__ __forceinline__ void count_piece(const RadixHistogramArgs& args, const K* keys,
                                            long long first, long long end, unsigned* bins) {
  constexpr int kUnroll = 8;
  KeyOrder order = args.order;
  order.kind = kKind;
  unsigned* own = bins + (threadIdx.x & ((1u << args.copy_bits) - 1));
  const auto count = [&](K bits) {
    const K key = encode_key(bits, order, true);
#pragma unroll
    for (int p = 0; p < static_cast<int>(sizeof(K)); ++p)
      atomicAdd(own + ((p * 256u + key_digit(key, p)) << args.copy_bits), 1u);
  };
  long long i = first + threadIdx.x;
  for (; i + (kUnroll - 1) * kThreads < end; i += kUnroll * kThreads) {
    K bits[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) bits[u] = keys[i + u * kThreads];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) count(bits[u]);
  }
  for (; i < end; i += kThreads) count(keys[i]);
}

// Exclusive sum over 256 threads; all threads of the block must call it, threads from 256 on with
// 0.
__device__ __forceinline__ uint64 scan_bins(uint64 count, uint64* warp_sums) {
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  uint64 sum = count;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const uint64 other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // protects the previous use of warp_sums
  if (lane == 31 && warp < 8) warp_sums[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp && w < 8; ++w) sum += warp_sums[w];
  return sum - count;
}

template <class K, int kThreads>
__global__ void __launch_bounds__(kThreads) radix_histogram_kernel(const RadixHistogramArgs args) {
  constexpr int kPasses = sizeof(K);
  extern __shared__ unsigned digit_bins[];
  __shared__ uint64 warp_sums[8];
  __shared__ bool ends_row;
  const int tid = threadIdx.x;
  const int copies = 1 << args.copy_bits;
  for (int i = tid; i < kPasses * 256 * copies; i += kThreads) digit_bins[i] = 0;
  __syncthreads();

  const unsigned row = blockIdx.x / args.blocks_per_row;
  const long long first = (blockIdx.x % args.blocks_per_row) * args.piece;
  const long long end = first + args.piece < args.len ? first + args.piece : args.len;
  const K* keys = static_cast<const K*>(args.keys) + row * args.len;
  if (args.order.kind == KeyKind::kFloat)
    count_piece<K, kThreads, KeyKind::kFloat>(args, keys, first, end, digit_bins);
  else if (args.order.kind == KeyKind::kSigned)
    count_piece<K, kThreads, KeyKind::kSigned>(args, keys, first, end, digit_bins);
  else
    count_piece<K, kThreads, KeyKind::kUnsigned>(args, keys, first, end, digit_bins);
  __syncthreads();

  uint64* counts = args.counts + static_cast<long long>(row) * (kPasses * 256);
  for (int b = tid; b < kPasses * 256; b += kThreads) {
    unsigned count = 0;
    for (int c = 0; c < copies; ++c)  // staggered start copy, to use all banks
      count += digit_bins[b * copies + ((c + tid) & (copies - 1))];
    if (count != 0) atomicAdd(counts + b, static_cast<uint64>(count));
  }
  __threadfence();
  __syncthreads();
  if (tid == 0) ends_row = atomicAdd(args.done + row, 1u) == args.blocks_per_row - 1;
  __syncthreads();
  if (!ends_row) return;
  __threadfence();
  for (int p = 0; p < kPasses; ++p) {
    const uint64 count = tid < 256 ? __ldcg(counts + p * 256 + tid) : 0;
    const bool constant = __syncthreads_or(count == static_cast<uint64>(args.len)) != 0;
    if (!constant && tid == 0) atomicOr(args.active, 1u << p);
    const uint64 start = scan_bins(count, warp_sums);
    if (tid < 256) counts[p * 256 + tid] = start;
  }
}

}  // namespace gpk
