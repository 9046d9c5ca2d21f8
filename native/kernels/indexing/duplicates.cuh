// Among positions with equal offsets only the last may store: "the last one wins", whatever the
// order of execution. mark_kernel inserts every position into a table, which keeps the highest
// position per offset; drop_kernel sets the offsets of all others to kSkipOffset.
// Table: `slots` entries, initially -1. stride != 0: slot = offset / stride, all distinct. Else a
// hash table with linear probing; an entry is a position, its key the offset at that position,
// which no later maximum changes. At least twice as many slots as positions.
// Grid: ceil(n / 256) blocks. Slot: int, or long long from 2**31 positions on.
#pragma once

#include "indexing/layout.cuh"

namespace gpk {

__device__ __forceinline__ int swap_if_empty(int* slot, int position) {
  return atomicCAS(slot, -1, position);
}

__device__ __forceinline__ long long swap_if_empty(long long* slot, long long position) {
  return static_cast<long long>(atomicCAS(reinterpret_cast<unsigned long long*>(slot), ~0ull,
                                          static_cast<unsigned long long>(position)));
}

__device__ __forceinline__ long long first_slot(long long offset, long long slots,
                                                long long stride) {
  if (stride != 0) return offset / stride;
  unsigned long long x = static_cast<unsigned long long>(offset) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  return static_cast<long long>(__umul64hi(x, static_cast<unsigned long long>(slots)));
}

template <class Slot>
__global__ void mark_kernel(const long long* offsets, long long n, Slot* table, long long slots,
                            long long stride) {
  const long long j = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= n || offsets[j] == kSkipOffset) return;
  const long long key = offsets[j];
  long long at = first_slot(key, slots, stride);
  const Slot mine = static_cast<Slot>(j);
  if (stride != 0) {
    atomicMax(table + at, mine);
    return;
  }
  while (true) {
    const Slot found = swap_if_empty(table + at, mine);
    if (found < 0) return;
    if (offsets[found] == key) {
      atomicMax(table + at, mine);
      return;
    }
    at = at + 1 < slots ? at + 1 : 0;
  }
}

// The table holds only winners, whose offsets do not change: reading them here is not a race.
template <class Slot>
__global__ void drop_kernel(long long* offsets, long long n, const Slot* table, long long slots,
                            long long stride) {
  const long long j = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= n || offsets[j] == kSkipOffset) return;
  const long long key = offsets[j];
  long long at = first_slot(key, slots, stride);
  while (true) {
    const Slot winner = table[at];
    if (winner == static_cast<Slot>(j)) return;
    if (stride != 0 || offsets[winner] == key) {
      offsets[j] = kSkipOffset;
      return;
    }
    at = at + 1 < slots ? at + 1 : 0;
  }
}

}  // namespace gpk
