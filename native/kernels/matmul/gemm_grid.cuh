// Maps blocks to tiles and batches, and results to their destination: C through the epilogue, or,
// with split-K, accumulators in [split][batch][m][n].
#pragma once

#include "common/shared.cuh"
#include "matmul/arithmetic.cuh"

namespace gpk {

struct TilePlace {
  unsigned m, n;  // of the tile
  long long batch;
};

// Grid: x all tiles of a batch, batch after batch. Recomputed at every call, so that it takes no
// registers in the main loop.
__device__ __forceinline__ TilePlace tile_place(const TileGrid& grid) {
  const unsigned tiles = grid.tiles_m * grid.tiles_n;
  const unsigned block = fresh_block_x();
  const unsigned batch = block / tiles;
  const unsigned index = block - batch * tiles;
  const unsigned per_group = grid.group * grid.tiles_n;
  const unsigned first = index / per_group * grid.group;
  const unsigned rows = min(grid.tiles_m - first, grid.group);
  const unsigned in_group = index % per_group;
  return {first + in_group % rows, in_group / rows, batch};
}

// The copies for this block's tiles of A and B, from its first k on.
template <class Gemm, class TA, class TB, int kTileM, int kTileN, bool kAKMajor, bool kBKMajor>
__device__ __forceinline__ typename Gemm::Feed tile_feed(const MatmulArgs& args,
                                                         const TileGrid& grid) {
  const TilePlace place = tile_place(grid);
  const BatchOffsets at = batch_offsets(args, place.batch);
  const long long first_m = static_cast<long long>(place.m) * kTileM;
  const long long first_n = static_cast<long long>(place.n) * kTileN;
  const long long first_k = blockIdx.y * args.k_per_split;
  const long long a_pitch = kAKMajor ? args.a_m : args.a_k;
  const long long b_pitch = kBKMajor ? args.b_n : args.b_k;
  const TA* const a = static_cast<const TA*>(args.a) + at.a +
                      (kAKMajor ? first_m * a_pitch + first_k : first_k * a_pitch + first_m);
  const TB* const b = static_cast<const TB*>(args.b) + at.b +
                      (kBKMajor ? first_n * b_pitch + first_k : first_k * b_pitch + first_n);
  return {typename Gemm::CopyA(a, a_pitch), typename Gemm::CopyB(b, b_pitch),
          static_cast<int>(min(args.m - first_m, static_cast<long long>(kTileM))),
          static_cast<int>(min(args.n - first_n, static_cast<long long>(kTileN))),
          static_cast<int>(min(args.k - first_k, args.k_per_split))};
}

// A tile of the result: its first element, strides, and how much of it exists.
template <class TC>
struct TileTarget {
  TC* first;
  long long row_step, col_step;
  int rows, cols;
  bool wide;  // rows can be stored 16 bytes at a time

  __device__ __forceinline__ void bound(long long rows_left, long long cols_left, int tile_m,
                                        int tile_n) {
    rows = static_cast<int>(rows_left < tile_m ? rows_left : tile_m);
    cols = static_cast<int>(cols_left < tile_n ? cols_left : tile_n);
    const unsigned long long bytes = static_cast<unsigned long long>(row_step) * sizeof(TC);
    wide = col_step == 1 && ((reinterpret_cast<unsigned long long>(first) | bytes) & 15) == 0;
  }
};

template <class TC>
__device__ __forceinline__ TileTarget<TC> result_target(const MatmulArgs& args, long long first_m,
                                                        long long first_n, long long at_c,
                                                        int tile_m, int tile_n) {
  TileTarget<TC> target;
  target.row_step = args.c_m;
  target.col_step = args.c_n;
  target.first = static_cast<TC*>(args.c) + at_c + first_m * args.c_m + first_n * args.c_n;
  target.bound(args.m - first_m, args.n - first_n, tile_m, tile_n);
  return target;
}

template <class Acc>
__device__ __forceinline__ TileTarget<Acc> partial_target(const MatmulArgs& args, long long first_m,
                                                          long long first_n, long long batch,
                                                          int tile_m, int tile_n) {
  TileTarget<Acc> target;
  target.row_step = args.n;
  target.col_step = 1;
  target.first = static_cast<Acc*>(args.partial) +
                 ((blockIdx.y * args.num_batches + batch) * args.m + first_m) * args.n + first_n;
  target.bound(args.m - first_m, args.n - first_n, tile_m, tile_n);
  return target;
}

}  // namespace gpk
