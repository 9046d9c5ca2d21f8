// Putting the parts of one reduction together: inside a warp, inside a block, over blocks. The
// order is fixed by positions alone, never by timing, so results are the same bits every time.
#pragma once

#include "reduction/layout.cuh"

namespace gpk {

constexpr int kBlock = 256;

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

// Written by another block: read past the L1.
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

// Merges the accumulators of threads with equal threadIdx.x; those with threadIdx.y == 0 get the
// result. `shared` has kV * kBlock / 2 places. For all threads of the block.
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

// True in the last of the blocks with this blockIdx.x to come here; what the others wrote before is
// then visible. The counter goes back to zero. For all threads of the block.
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

// What follows the accumulation in the kernels whose threads own kV results each, `first` being the
// first of them: over the threads of the block, over the blocks of the column, to the output.
template <int kV, class Op>
__device__ __forceinline__ void finish_columns(const Op& op, typename Op::Acc (&acc)[kV],
                                               const ReduceArgs& args, bool active,
                                               long long first, long long out_at,
                                               long long out_step) {
  using Acc = typename Op::Acc;
  __shared__ alignas(16) unsigned char memory[sizeof(Acc) * kV * (kBlock / 2)];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  merge_over_y<kV>(op, acc, shared);
  if (gridDim.y > 1) {
    Acc* partials = static_cast<Acc*>(args.partials);
    if (active && threadIdx.y == 0) {
#pragma unroll
      for (int v = 0; v < kV; ++v) partials[blockIdx.y * args.layout.kept + first + v] = acc[v];
    }
    if (!is_last_block(args.counters + blockIdx.x)) return;
#pragma unroll
    for (int v = 0; v < kV; ++v) acc[v] = op.init();
    if (active) {
      for (unsigned s = threadIdx.y; s < gridDim.y; s += blockDim.y) {
#pragma unroll
        for (int v = 0; v < kV; ++v)
          op.merge(acc[v], load_partial(partials + s * args.layout.kept + first + v));
      }
    }
    merge_over_y<kV>(op, acc, shared);
  }
  if (active && threadIdx.y == 0) {
#pragma unroll
    for (int v = 0; v < kV; ++v) op.store(args.out, out_at + v * out_step, acc[v], args.finish);
  }
}

}  // namespace gpk
