// out[b][r][c] = in[b][c][r]: copies between arrays whose inner axes differ, by element width.
// The result is contiguous along c, the source along r; other axes are in `batch`.
// transpose_blocks: no shared memory. Each thread reads kV vectors of kV elements (16 bytes) along
//   r, transposes the kV x kV block in registers and writes kV vectors along c. A warp covers
//   8 kV rows x 4 kV columns, so both sides touch whole sectors. Sizes, strides and addresses are
//   multiples of kV elements.
// transpose_tiles: any sizes; 32 x 32 elements through shared memory, one element per access.
// Grid: x tiles along r times c, y batch (modulo its limit).
#pragma once

#include "common/vec.cuh"

namespace gpk {

struct alignas(16) Word16 {
  unsigned long long lo, hi;
};

struct TransposeArgs {
  const void* in;
  void* out;
  long long rows, columns;      // of the result: along r and c
  long long in_step, out_step;  // elements between columns of `in`, between rows of `out`
  long long num_batches;
  int batch_rank;
  long long batch_size[30];
  long long batch_in[30];
  long long batch_out[30];
};

__device__ __forceinline__ void batch_offsets(const TransposeArgs& args, long long batch,
                                              long long& in, long long& out) {
  in = 0;
  out = 0;
  for (int axis = 0; axis < args.batch_rank; ++axis) {
    const long long next = batch / args.batch_size[axis];
    const long long index = batch - next * args.batch_size[axis];
    in += index * args.batch_in[axis];
    out += index * args.batch_out[axis];
    batch = next;
  }
}

template <class W, int kV>
__global__ void __launch_bounds__(256)
    transpose_blocks(const __grid_constant__ TransposeArgs args) {
  constexpr int kTile = 16 * kV;  // two warps along r, four along c
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const long long tiles_r = (args.rows + kTile - 1) / kTile;
  const long long tile_r = blockIdx.x % tiles_r;
  const long long tile_c = blockIdx.x / tiles_r;
  const long long r = tile_r * kTile + ((warp % 2) * 8 + lane % 8) * kV;
  const long long c = tile_c * kTile + ((warp / 2) * 4 + lane / 8) * kV;
  if (r >= args.rows || c >= args.columns) return;
  for (long long batch = blockIdx.y; batch < args.num_batches; batch += gridDim.y) {
    long long in_at, out_at;
    batch_offsets(args, batch, in_at, out_at);
    const W* in = static_cast<const W*>(args.in) + in_at + c * args.in_step + r;
    W* out = static_cast<W*>(args.out) + out_at + r * args.out_step + c;
    Vec<W, kV> x[kV];
#pragma unroll
    for (int k = 0; k < kV; ++k) x[k] = load_vec<W, kV>(in + k * args.in_step);
#pragma unroll
    for (int k = 0; k < kV; ++k) {
      Vec<W, kV> y;
#pragma unroll
      for (int m = 0; m < kV; ++m) y.v[m] = x[m].v[k];
      store_vec<W, kV>(out + k * args.out_step, y);
    }
  }
}

template <class W>
__global__ void __launch_bounds__(256) transpose_tiles(const __grid_constant__ TransposeArgs args) {
  __shared__ W tile[32][33];
  const int x = threadIdx.x % 32;
  const int y = threadIdx.x / 32;
  const long long tiles_r = (args.rows + 31) / 32;
  const long long r0 = (blockIdx.x % tiles_r) * 32;
  const long long c0 = (blockIdx.x / tiles_r) * 32;
  for (long long batch = blockIdx.y; batch < args.num_batches; batch += gridDim.y) {
    long long in_at, out_at;
    batch_offsets(args, batch, in_at, out_at);
    const W* in = static_cast<const W*>(args.in) + in_at;
    W* out = static_cast<W*>(args.out) + out_at;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
      if (c0 + y + k < args.columns && r0 + x < args.rows)
        tile[y + k][x] = in[(c0 + y + k) * args.in_step + r0 + x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 8)
      if (r0 + y + k < args.rows && c0 + x < args.columns)
        out[(r0 + y + k) * args.out_step + c0 + x] = tile[x][y + k];
    __syncthreads();
  }
}

}  // namespace gpk
