// Merging the parts of one reduction: within a warp, within a block, across blocks. The order
// depends only on positions, never on timing, so results are bitwise reproducible.
#pragma once

#include "reduction/layout.cuh"

namespace gpk {

constexpr int kBlock = ReduceArgs::kBlock;

template <class A>
__device__ __forceinline__ A shuffle_down(const A& a, int delta) {
  static_assert(sizeof(A) % 4 == 0);
  union Words {
    A value;
    unsigned words[sizeof(A) / 4];
    __device__ Words() {}
  };
  Words from;
  Words to;
  from.value = a;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(A) / 4); ++i)
    to.words[i] = __shfl_down_sync(0xffffffffu, from.words[i], delta);
  return to.value;
}

// Written by another block: bypasses the L1.
template <class A>
__device__ __forceinline__ A load_partial(const A* from) {
  union Words {
    A value;
    unsigned words[sizeof(A) / 4];
    __device__ Words() {}
  };
  Words to;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(A) / 4); ++i)
    to.words[i] = __ldcg(reinterpret_cast<const unsigned*>(from) + i);
  return to.value;
}

// Merges over `group` adjacent threads (a power of two); the first of them gets the result.
template <class Op>
__device__ __forceinline__ void merge_group(const Op& op, typename Op::Acc& acc, int group,
                                            typename Op::Acc* shared) {
  for (int o = (group < 32 ? group : 32) / 2; o > 0; o /= 2) op.merge(acc, shuffle_down(acc, o));
  if (group <= 32) return;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x % group == 0)
    for (int w = 1; w < group / 32; ++w) op.merge(acc, shared[threadIdx.x / 32 + w]);
}

// Merges the accumulators of threads with equal threadIdx.x; those with threadIdx.y == 0 get the
// result. `shared` has kV * kBlock / 2 entries. All threads of the block must call it.
template <int kV, class Op>
__device__ __forceinline__ void merge_over_y(const Op& op, typename Op::Acc (&acc)[kV],
                                             typename Op::Acc* shared) {
  const int y = threadIdx.y;
  const int rows = blockDim.y;
  int half = 1;
  while (half * 2 < rows) half *= 2;
  if (rows == 1) return;
  for (; half > 0; half /= 2) {
    const int slot = (y & (half - 1)) * blockDim.x + threadIdx.x;
    if (y >= half && y < 2 * half) {
#pragma unroll
      for (int v = 0; v < kV; ++v) shared[v * (kBlock / 2) + slot] = acc[v];
    }
    __syncthreads();
    if (y < half && y + half < rows) {
#pragma unroll
      for (int v = 0; v < kV; ++v) op.merge(acc[v], shared[v * (kBlock / 2) + slot]);
    }
    __syncthreads();
  }
}

// True in the last block with this blockIdx.x to arrive; the others' earlier writes are then
// visible. Resets the counter to zero. All threads of the block must call it.
__device__ __forceinline__ bool is_last_block(unsigned* counter) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0)
    last = atomicInc(counter, gridDim.y - 1) == gridDim.y - 1;
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// The results of a tile of columns, one thread per column, or several that share its splits and
// leave their parts in `shared` for the first of them.
template <class Op>
__device__ __forceinline__ typename Op::Acc merge_splits(const Op& op,
                                                         const typename Op::Acc* partials,
                                                         long long stride, unsigned first,
                                                         unsigned step) {
  typename Op::Acc acc = op.init();
  for (unsigned s = first; s < gridDim.y; s += 4 * step) {
    typename Op::Acc part[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (s + i * step < gridDim.y) part[i] = load_partial(partials + (s + i * step) * stride);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (s + i * step < gridDim.y) op.merge(acc, part[i]);
  }
  return acc;
}

// The tail of the kernels whose threads own kV results each: reduces over the threads of the block,
// over the blocks of the column, and writes the output. The tile has `count` results from `first`
// on, and out_at(i) is the location of the i-th. blockDim.x <= kBlock / 2.
template <int kV, class Op, class OutAt>
__device__ __forceinline__ void finish_columns(const Op& op, typename Op::Acc (&acc)[kV],
                                               const ReduceArgs& args, long long first, int count,
                                               const OutAt& out_at) {
  using Acc = typename Op::Acc;
  __shared__ alignas(16) unsigned char memory[sizeof(Acc) * kV * (kBlock / 2)];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int threads = blockDim.x * blockDim.y;
  merge_over_y<kV>(op, acc, shared);
  if (threadIdx.y == 0) {
#pragma unroll
    for (int v = 0; v < kV; ++v) shared[threadIdx.x * kV + v] = acc[v];
  }
  __syncthreads();
  if (gridDim.y > 1) {
    Acc* partials = static_cast<Acc*>(args.partials) + first;
    for (int i = thread; i < count; i += threads)
      partials[blockIdx.y * args.layout.kept + i] = shared[i];
    if (!is_last_block(args.counters + blockIdx.x)) return;
    const int width = blockDim.x * kV;
    const int sharers = width < threads ? threads / width : 1;
    if (sharers == 1) {
      for (int i = thread; i < count; i += threads)
        shared[i] = merge_splits(op, partials + i, args.layout.kept, 0, 1);
    } else {
      const int i = thread % width;
      const int share = thread / width;
      Acc part = op.init();
      if (i < count && share < sharers)
        part = merge_splits(op, partials + i, args.layout.kept, share, sharers);
      // Sequentially, so that the order is fixed and one entry per column suffices.
      for (int turn = 0; turn < sharers; ++turn) {
        if (share == turn && i < count) {
          if (turn > 0) {
            Acc sum = shared[i];
            op.merge(sum, part);
            part = sum;
          }
          shared[i] = part;
        }
        __syncthreads();
      }
    }
    __syncthreads();
  }
  for (int i = thread; i < count; i += threads)
    op.store(args.out, out_at(i), shared[i], args.finish);
}

}  // namespace gpk
