// The thread blocks that share a row: a cluster, or one block. Each has a slice of consecutive
// tokens, kept in shared memory as float32 (or in `cache`), and combines its sums with the others'
// through distributed shared memory.
#pragma once

#include "args/sampling.h"
#include "common/barrier.cuh"
#include "common/cluster_memory.cuh"
#include "common/dtype.cuh"
#include "common/shared.cuh"
#include "common/vec.cuh"
#include "sampling/mass.cuh"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ float lowest_logit() { return __int_as_float(0xff800000); }

struct MaxMass {
  static __device__ __forceinline__ Mass run(Mass a, Mass b) { return a > b ? a : b; }
};
struct SumMass {
  static __device__ __forceinline__ Mass run(Mass a, Mass b) { return a + b; }
};

// What a block lets the others read.
struct TeamShared {
  Mass warps[32];
  Mass posted[2][2];  // by turn, so that one barrier per exchange is enough
  Mass gathered[2][16];
};

template <int kThreads, bool kClustered>
class Team {
 public:
  __device__ __forceinline__ Team(const SampleRows& rows, TeamShared& shared)
      : row(static_cast<int>(blockIdx.x / static_cast<unsigned>(rows.blocks))),
        rank(static_cast<int>(blockIdx.x % static_cast<unsigned>(rows.blocks))),
        size(rows.blocks),
        first(rank * rows.slice),
        count(max(0, min(rows.slice, rows.width - first))),
        shared_(shared) {}

  // A block by itself with `tokens` tokens.
  __device__ __forceinline__ Team(int of_row, int tokens, TeamShared& shared)
      : row(of_row), rank(0), size(1), first(0), count(tokens), shared_(shared) {}

  __device__ __forceinline__ void sync() const {
    if constexpr (kClustered) {
      cluster_sync();
    } else {
      __syncthreads();
    }
  }

  // The variable of block `of` that is `p` in this one.
  template <class T>
  __device__ __forceinline__ T read(const T* p, int of) const {
    if constexpr (kClustered) {
      return load_shared_of(p, static_cast<unsigned>(of));
    } else {
      return *p;
    }
  }

  // Over the threads of the block; all get the result.
  template <class Op>
  __device__ __forceinline__ Mass reduce(Mass x) const {
#pragma unroll
    for (int o = 16; o > 0; o /= 2) x = Op::run(x, __shfl_xor_sync(0xffffffffu, x, o));
    if (lane() == 0) shared_.warps[warp()] = x;
    __syncthreads();
    x = lane() < kThreads / 32 ? shared_.warps[lane()] : 0;
#pragma unroll
    for (int o = 16; o > 0; o /= 2) x = Op::run(x, __shfl_xor_sync(0xffffffffu, x, o));
    __syncthreads();
    return x;
  }

  // The sum over the threads before this one.
  __device__ __forceinline__ Mass scan(Mass x) const {
    const Mass mine = x;
    x = inclusive(x);
    if (lane() == 31) shared_.warps[warp()] = x;
    __syncthreads();
    const Mass warps = inclusive(lane() < kThreads / 32 ? shared_.warps[lane()] : 0);
    const Mass before = __shfl_sync(0xffffffffu, warps, warp() == 0 ? 0 : warp() - 1);
    __syncthreads();
    return (warp() == 0 ? 0 : before) + x - mine;
  }

  // Lets all blocks read the others' values, which are the same in all threads of a block:
  // posted(i) is that of block i. Valid until the next but one post.
  __device__ __forceinline__ void post(Mass x, Mass y = 0) {
    turn_ ^= 1;
    if (threadIdx.x == 0) {
      shared_.posted[turn_][0] = x;
      shared_.posted[turn_][1] = y;
    }
    sync();
    const int at = static_cast<int>(threadIdx.x);
    if (at < 2 * size)
      shared_.gathered[at & 1][at / 2] = read(&shared_.posted[turn_][at & 1], at / 2);
    __syncthreads();
  }
  __device__ __forceinline__ Mass posted(int of, int which = 0) const {
    return shared_.gathered[which][of];
  }
  template <class Op>
  __device__ __forceinline__ Mass all(int which = 0) const {
    Mass result = posted(0, which);
    for (int i = 1; i < size; ++i) result = Op::run(result, posted(i, which));
    return result;
  }

  const int row;
  const int rank;
  const int size;
  const int first;  // of the slice
  const int count;

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) & 31; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ Mass inclusive(Mass x) {
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
      const Mass left = __shfl_up_sync(0xffffffffu, x, o);
      if (lane() >= o) x += left;
    }
    return x;
  }

  TeamShared& shared_;
  int turn_ = 0;
};

// Stores finish(logit, token) of the slice to `x`, in units of kV, and returns the largest of this
// thread as rank_of().
template <class T, int kV, int kThreads, class Slice, class Finish>
__device__ __forceinline__ Mass load_slice(const Slice& team, const SampleRows& rows, float* x,
                                           const Finish& finish) {
  const T* from = static_cast<const T*>(rows.logits) + team.row * rows.logits_row + team.first;
  float top = lowest_logit();
  int top_index = rows.width;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) * kV; i < team.count; i += kThreads * kV) {
    const Vec<T, kV> raw = load_vec<T, kV>(from + i);
    constexpr int kStore = kV < 4 ? kV : 4;
#pragma unroll
    for (int begin = 0; begin < kV; begin += kStore) {
      Vec<float, kStore> done;
#pragma unroll
      for (int v = 0; v < kStore; ++v) {
        const int token = team.first + i + begin + v;
        const float e = finish(to_compute(raw.v[begin + v]), token);
        done.v[v] = e;
        if (e > top) {
          top = e;
          top_index = token;
        }
      }
      store_vec<float, kStore>(x + i + begin, done);
    }
  }
  return rank_of(top, top_index);
}

template <class Slice>
__device__ __forceinline__ float* slice_memory(const Slice& team, const SampleRows& rows) {
  if (rows.cache == nullptr) return reinterpret_cast<float*>(dynamic_shared());
  return rows.cache + static_cast<long long>(team.row) * rows.width + team.first;
}

}  // namespace gpk
