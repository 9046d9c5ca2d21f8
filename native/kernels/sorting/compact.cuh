// Stream compaction: elements with flags[i] != 0, or, without flags, the heads of runs of equal
// elements in sorted data (data[i] != data[i - 1]).
// Three launches over tiles of 4096 elements: count_kernel (selected per tile), scan_kernel (one
// block: exclusive sums in place, followed by the total), compact_kernel (writes). In between the
// host may read the total to size the results.
// Outputs, each may be null: values[p] = data[i], places[p] = i, index[p] = order[i] of selected
// element i with p selected before it; inverse[order[i]] = number of the run of any element i.
// T is any word of the elements' size; grids as above, 256 threads.
#pragma once

#include "sorting/gather.cuh"
#include "sorting/key.cuh"

namespace gpk {

constexpr int kCompactThreads = CompactArgs::kThreads;
constexpr int kCompactItems = CompactArgs::kItems;
constexpr int kCompactTile = CompactArgs::kTile;

// Numeric equality, apart from NaN.
template <class K>
__device__ __forceinline__ bool same_number(K a, K b, const KeyOrder& order) {
  if (a == b) return true;
  return order.kind != KeyKind::kUnsigned && order.kind != KeyKind::kSigned &&
         ((a | b) & static_cast<K>(~KeyBits<K>::kSign)) == 0;
}

template <class K>
__device__ __forceinline__ bool equal_parts(K real_a, K imag_a, K real_b, K imag_b,
                                            const KeyOrder& order, bool nan_equal) {
  const bool nan_a = is_nan_bits(real_a, order) || is_nan_bits(imag_a, order);
  const bool nan_b = is_nan_bits(real_b, order) || is_nan_bits(imag_b, order);
  if (nan_a || nan_b) return nan_a && nan_b && nan_equal;
  return same_number(real_a, real_b, order) && same_number(imag_a, imag_b, order);
}

template <class K>
__device__ __forceinline__ bool equal_elems(K a, K b, const KeyOrder& order, bool nan_equal) {
  if constexpr (sizeof(K) == 8) {
    if (order.kind == KeyKind::kComplex)
      return equal_parts(static_cast<unsigned>(a), static_cast<unsigned>(a >> 32),
                         static_cast<unsigned>(b), static_cast<unsigned>(b >> 32), order,
                         nan_equal);
  }
  if (order.kind == KeyKind::kFloat) {
    const bool nan_a = is_nan_bits(a, order);
    const bool nan_b = is_nan_bits(b, order);
    if (nan_a || nan_b) return nan_a && nan_b && nan_equal;
  }
  return same_number(a, b, order);
}

__device__ __forceinline__ bool equal_elems(const Word16& a, const Word16& b, const KeyOrder& order,
                                            bool nan_equal) {
  return equal_parts(a.low, a.high, b.low, b.high, order, nan_equal);
}

template <class T>
__device__ __forceinline__ bool is_selected(const CompactArgs& args, long long i) {
  if (i >= args.n) return false;
  if (args.flags != nullptr) return args.flags[i] != 0;
  const T* data = static_cast<const T*>(args.data);
  return i == 0 || !equal_elems(data[i], data[i - 1], args.order_of, args.nan_equal != 0);
}

template <class T>
__global__ void __launch_bounds__(kCompactThreads) count_kernel(const CompactArgs args) {
  __shared__ unsigned warp_counts[kCompactThreads / 32];
  const long long first = static_cast<long long>(blockIdx.x) * kCompactTile + threadIdx.x;
  unsigned count = 0;
#pragma unroll 4
  for (int i = 0; i < kCompactItems; ++i)
    count += __popc(__ballot_sync(~0u, is_selected<T>(args, first + i * kCompactThreads)));
  if (threadIdx.x % 32 == 0) warp_counts[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  uint64 sum = 0;
  for (int w = 0; w < kCompactThreads / 32; ++w) sum += warp_counts[w];
  args.sums[blockIdx.x] = sum;
}

// One block of 1024 threads.
__global__ void __launch_bounds__(1024) scan_kernel(uint64* sums, long long tiles) {
  __shared__ uint64 warp_sums[32];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  uint64 before = 0;
  for (long long first = 0; first < tiles; first += 1024) {
    const long long i = first + threadIdx.x;
    const uint64 own = i < tiles ? sums[i] : 0;
    uint64 sum = own;
    for (int step = 1; step < 32; step *= 2) {
      const uint64 other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    uint64 all = 0;
    for (int w = 0; w < 32; ++w) {
      if (w == warp) sum += all;
      all += warp_sums[w];
    }
    __syncthreads();
    if (i < tiles) sums[i] = before + sum - own;
    before += all;
  }
  if (threadIdx.x == 0) sums[tiles] = before;
}

template <class T>
__device__ __forceinline__ void write_elem(const CompactArgs& args, long long i, bool selected,
                                           long long before) {
  if (selected) {
    if (args.values != nullptr)
      static_cast<T*>(args.values)[before] = static_cast<const T*>(args.data)[i];
    if (args.places != nullptr) args.places[before] = i;
    if (args.index != nullptr) args.index[before] = args.order[i];
  }
  if (args.inverse != nullptr && i < args.n)
    args.inverse[args.order[i]] = selected ? before : before - 1;
}

template <class T>
__global__ void __launch_bounds__(kCompactThreads) compact_kernel(const CompactArgs args) {
  constexpr int kWarps = kCompactThreads / 32;
  constexpr int kGroups = kCompactItems * kWarps;  // of 32 consecutive elements, in order
  __shared__ unsigned votes[kGroups];
  __shared__ unsigned befores[kGroups];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const long long first = static_cast<long long>(blockIdx.x) * kCompactTile + threadIdx.x;
  for (int i = 0; i < kCompactItems; ++i) {
    const unsigned vote = __ballot_sync(~0u, is_selected<T>(args, first + i * kCompactThreads));
    if (lane == 0) votes[i * kWarps + warp] = vote;
  }
  __syncthreads();
  if (threadIdx.x < kGroups) {
    unsigned before = 0;
    for (int g = 0; g < static_cast<int>(threadIdx.x); ++g) before += __popc(votes[g]);
    befores[threadIdx.x] = before;
  }
  __syncthreads();
  const long long tile_before = static_cast<long long>(args.sums[blockIdx.x]);
  const unsigned lower = (1u << lane) - 1;
  for (int i = 0; i < kCompactItems; ++i) {
    const int group = i * kWarps + warp;
    const unsigned vote = votes[group];
    write_elem<T>(args, first + i * kCompactThreads, (vote >> lane & 1u) != 0,
                  tile_before + befores[group] + __popc(vote & lower));
  }
}

// counts[p] = length of run p, computed from the run starts.
__global__ void __launch_bounds__(256)
    run_length_kernel(const long long* places, long long* counts, long long runs, long long n) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long p = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; p < runs;
       p += step)
    counts[p] = (p + 1 < runs ? places[p + 1] : n) - places[p];
}

}  // namespace gpk
