// Weights on their way to the warps that multiply by them. One warp runs ahead through all linear
// layers of the chain, past all barriers of the grid: no phase writes a weight of a later one. So
// the ring is full again while the others wait for each other.
#pragma once

#include "args/chain.h"
#include "args/matmul.h"
#include "common/barrier.cuh"
#include "common/bulk_copy.cuh"

namespace gpk {

using namespace kernels;

// How gemv_mma cuts a matrix, for all warps of a block at once: a tile of w in steps of K, a stage
// of the ring each (gated: two, gate and up).
struct ChainTiles {
  int n, k, k_per_split;
  int k_warps;
  int rows;   // of a tile
  int step;   // elements of K
  int pitch;  // bytes from row to row of a stage: no bank conflicts

  __device__ __forceinline__ explicit ChainTiles(const GemvArgs& args)
      : n(static_cast<int>(args.n)),
        k(static_cast<int>(args.k)),
        k_per_split(static_cast<int>(args.k_per_split)),
        k_warps(static_cast<int>(args.k_warps)),
        rows(16 * kChainWarps / k_warps),
        step(128 * k_warps),
        pitch(256 * k_warps + 64) {}
  __device__ __forceinline__ int end_of(int begin) const { return min(begin + k_per_split, k); }
};

// The first unit of this block.
__device__ __forceinline__ int first_unit(const ChainPhase& phase) {
  const int blocks = static_cast<int>(gridDim.x);
  const int after = static_cast<int>(blockIdx.x) - phase.first_unit_offset % blocks;
  return after < 0 ? after + blocks : after;
}

class WeightRing {
 public:
  // Thread 0 prepares the barriers; the block synchronises before they are used.
  __device__ __forceinline__ WeightRing(unsigned stages, unsigned barriers, const ChainArgs& args)
      : stages_(stages), barriers_(barriers), num_(args.stages), bytes_(args.stage_bytes) {
    if (threadIdx.x != 0) return;
    for (int i = 0; i < num_; ++i) {
      barrier_init(barriers_ + i * 16, 1);
      barrier_init(barriers_ + i * 16 + 8, kChainWarps);
    }
    barrier_init_fence();
    asm volatile("fence.proxy.async;" ::: "memory");
  }

  __device__ __forceinline__ unsigned stage() const { return stages_ + index_ * bytes_; }
  __device__ __forceinline__ unsigned full() const { return barriers_ + index_ * 16; }
  __device__ __forceinline__ void wait_full() const { barrier_wait(full(), parity_); }
  __device__ __forceinline__ void wait_free() const { barrier_wait(full() + 8, parity_ ^ 1); }
  // The warp has read the stage.
  __device__ __forceinline__ void release() const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(full() + 8);
  }
  __device__ __forceinline__ void advance() {
    if (++index_ < num_) return;
    index_ = 0;
    parity_ ^= 1;
  }

 private:
  unsigned stages_, barriers_;
  int num_, bytes_;
  int index_ = 0;
  unsigned parity_ = 0;
};

// This block's tiles of a linear layer, by one warp.
template <class T>
__device__ __forceinline__ void load_tiles(const ChainPhase& phase, WeightRing& ring) {
  const GemvArgs& args = *reinterpret_cast<const GemvArgs*>(phase.work);
  const ChainTiles tiles(args);
  const int halves = (phase.flags & kChainGated) != 0 ? 2 : 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* const w = static_cast<const T*>(args.w);
  for (int unit = first_unit(phase); unit < phase.num_units; unit += static_cast<int>(gridDim.x)) {
    for (int begin = 0; begin < tiles.k; begin += tiles.k_per_split) {
      const int end = tiles.end_of(begin);
      for (int at = begin; at < end; at += tiles.step) {
        const unsigned bytes = static_cast<unsigned>(min(tiles.step, end - at)) * sizeof(T);
        for (int half = 0; half < halves; ++half) {
          ring.wait_free();
          if (lane == 0) barrier_expect(ring.full(), tiles.rows * bytes);
          __syncwarp();
          for (int r = lane; r < tiles.rows; r += 32) {  // rows past the end repeat the last one
            const long long row = min(unit * tiles.rows + r, tiles.n - 1) + half * args.n;
            bulk_copy(ring.stage() + r * tiles.pitch, w + row * args.w_pitch + at, bytes,
                      ring.full());
          }
          ring.advance();
        }
      }
    }
  }
}

// All of them. A phase is fetched while the one before it is loaded.
template <class T>
__device__ __forceinline__ void load_weights(const ChainArgs& args, ChainPhase* phase,
                                             WeightRing& ring) {
  constexpr int kQuads = (32 + sizeof(GemvArgs) + 15) / 16;
  static_assert(kQuads <= 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto fetch = [&](int p) {
    uint4 quad{};
    if (lane < kQuads && p < args.num_phases)
      quad = reinterpret_cast<const uint4*>(args.phases + p)[lane];
    return quad;
  };
  uint4 ahead = fetch(args.first_gemv);
  for (int p = args.first_gemv; p < args.num_phases;) {
    if (lane < kQuads) reinterpret_cast<uint4*>(phase)[lane] = ahead;
    __syncwarp();
    p = phase->next_gemv;
    ahead = fetch(p);
    load_tiles<T>(*phase, ring);
    __syncwarp();  // the phase has been read
  }
}

}  // namespace gpk
