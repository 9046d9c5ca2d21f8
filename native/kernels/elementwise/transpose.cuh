// out[b][r][c] = in[b][c][r]: copies between arrays whose inner axes differ, by element width. The
// result is contiguous along c, the source along r; other axes are in `batch`.
// transpose_blocks: 16 bytes per access on both sides. A block takes 128 bytes along r and 128
//   elements along c through 16 KiB of shared memory. Elements below 4 bytes enter it in words of
//   several columns; the 16-byte groups of a row are swizzled, so that no access has bank
//   conflicts. Sizes, strides and addresses are multiples of 16 bytes. Transposing in registers
//   alone writes in too small pieces: less than half as fast.
// transpose_tiles: any sizes; 32 x 32 elements through shared memory, one element per access.
// Grid: tiles along r, times tiles along c, times batches.
#pragma once

#include "args/elementwise.h"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

// Where this block's tile of kRows x kColumns elements starts, and what is left there.
struct Tile {
  long long in_at, out_at;
  long long rows, columns;
};

template <int kRows, int kColumns>
__device__ __forceinline__ Tile this_tile(const TransposeArgs& args) {
  const unsigned tiles_r = static_cast<unsigned>((args.rows + kRows - 1) / kRows);
  const unsigned tiles_c = static_cast<unsigned>((args.columns + kColumns - 1) / kColumns);
  const long long r0 = static_cast<long long>(blockIdx.x % tiles_r) * kRows;
  const unsigned rest = blockIdx.x / tiles_r;
  const long long c0 = static_cast<long long>(rest % tiles_c) * kColumns;
  Tile tile{c0 * args.in_step + r0, r0 * args.out_step + c0, args.rows - r0, args.columns - c0};
  long long batch = rest / tiles_c;
  for (int axis = 0; axis < args.batch_rank; ++axis) {
    const long long next = batch / args.batch_size[axis];
    const long long index = batch - next * args.batch_size[axis];
    tile.in_at += index * args.batch_in[axis];
    tile.out_at += index * args.batch_out[axis];
    batch = next;
  }
  return tile;
}

// Unit of a shared memory store: an element, or those of kCount columns.
template <class W, bool kSmall = (sizeof(W) < 4)>
struct Packed {
  static constexpr int kCount = 1;
  using Word = W;
  template <class V>
  static __device__ __forceinline__ Word pack(const V (&x)[1], int k) {
    return x[0].v[k];
  }
};
template <class W>
struct Packed<W, true> {
  static constexpr int kCount = 4 / sizeof(W);
  using Word = unsigned int;
  template <class V>
  static __device__ __forceinline__ Word pack(const V (&x)[kCount], int k) {
    Word word = 0;
#pragma unroll
    for (int p = 0; p < kCount; ++p)
      word |= static_cast<Word>(x[p].v[k]) << (p * 8 * static_cast<int>(sizeof(W)));
    return word;
  }
};

template <class W>
__global__ void __launch_bounds__(256)
    transpose_blocks(const __grid_constant__ TransposeArgs args) {
  using Pack = Packed<W>;
  using Word = typename Pack::Word;
  constexpr int kV = 16 / sizeof(W);
  constexpr int kPack = Pack::kCount;
  constexpr int kRows = TransposeArgs::kBlockBytes / sizeof(W);
  constexpr int kColumns = TransposeArgs::kBlockColumns;
  constexpr int kWords = kColumns / kPack;  // of a row
  constexpr int kGroup = 16 / sizeof(Word);
  constexpr int kGroups = kWords / kGroup;
  constexpr int kLoads = 8 * kWords / 256;
  constexpr int kStores = kRows * kGroups / 256;
  __shared__ alignas(16) Word tile[kRows * kWords];
  const int thread = static_cast<int>(threadIdx.x);
  const Tile at = this_tile<kRows, kColumns>(args);
  const int across = thread % 8;  // which 16 bytes along r
  const W* in = static_cast<const W*>(args.in) + at.in_at + across * kV;
  Vec<W, kV> x[kLoads][kPack];
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    const int column = (u * 32 + thread / 8) * kPack;
    if (across * kV < at.rows && column < at.columns) {
#pragma unroll
      for (int p = 0; p < kPack; ++p) x[u][p] = load_vec<W, kV>(in + (column + p) * args.in_step);
    }
  }
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    const int word = u * 32 + thread / 8;
    const int place = ((word / kGroup) ^ across) * kGroup + word % kGroup;
#pragma unroll
    for (int k = 0; k < kV; ++k) tile[(across * kV + k) * kWords + place] = Pack::pack(x[u], k);
  }
  __syncthreads();
  W* out = static_cast<W*>(args.out) + at.out_at;
#pragma unroll
  for (int u = 0; u < kStores; ++u) {
    const int row = (u * 256 + thread) / kGroups;
    const int group = (u * 256 + thread) % kGroups;
    const Word* from = tile + row * kWords + (group ^ (row / kV)) * kGroup;
    if (row < at.rows && group * kV < at.columns)
      store_vec<W, kV>(out + row * args.out_step + group * kV,
                       *reinterpret_cast<const Vec<W, kV>*>(from));
  }
}

template <class W>
__global__ void __launch_bounds__(256) transpose_tiles(const __grid_constant__ TransposeArgs args) {
  constexpr int kTile = TransposeArgs::kTile;
  __shared__ W tile[kTile][kTile + 1];
  const int x = threadIdx.x % 32;
  const int y = threadIdx.x / 32;
  const Tile at = this_tile<kTile, kTile>(args);
  const W* in = static_cast<const W*>(args.in) + at.in_at;
  W* out = static_cast<W*>(args.out) + at.out_at;
#pragma unroll
  for (int k = 0; k < 32; k += 8)
    if (y + k < at.columns && x < at.rows) tile[y + k][x] = in[(y + k) * args.in_step + x];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 32; k += 8)
    if (y + k < at.rows && x < at.columns) out[(y + k) * args.out_step + x] = tile[x][y + k];
}

}  // namespace gpk
