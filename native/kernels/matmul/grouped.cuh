// c[i, :] = x[i, :] w[e]^T, e the expert of row i; x [m, k], w [experts, n, k], arbitrary strides.
// Rows are sorted by expert: sizes[e] of them each, at rows[0], rows[1], ... (null: 0, 1, ...). A
// block of 256 threads computes 64 rows of one expert by 64 columns. Grid: x, tiles of rows with
// all their tiles of columns; the expert of a tile of rows is found here, by a prefix sum of sizes,
// so there are surplus blocks. Rows beyond the sum of sizes are written as zeros.
//   group_rows: sorts rows by expert id, one block of 1024 threads; ids out of range come last.
// Shared memory as in tiled.cuh. Each element is summed in order of k in the accumulator type and
// rounded once, whatever its position among the rows: the order of rows within a group changes no
// bit.
#pragma once

#include "matmul/tiled.cuh"

namespace gpk {

constexpr int kGroupedTile = GroupedArgs::kTile;
constexpr int kGroupedTileK = 16;

// Inclusive prefix sum over the lanes.
__device__ __forceinline__ long long sum_up_to_lane(long long value, int lane) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const long long below = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += below;
  }
  return value;
}

struct GroupedPlace {
  long long expert;  // args.experts: rows without one; -1: nothing to do
  long long row, end;
};

// The rows of tile `tile`. Every warp computes them by itself.
__device__ __forceinline__ GroupedPlace grouped_place(const GroupedArgs& args, long long tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  long long rows_before = 0;
  long long tiles_before = 0;
  for (long long first = 0; first < args.experts; first += 32) {
    const long long expert = first + lane;
    long long size = expert < args.experts ? args.sizes[expert * args.sizes_step] : 0;
    if (size < 0) size = 0;
    long long end = rows_before + sum_up_to_lane(size, lane);
    long long begin = end - size;
    if (begin > args.m) begin = args.m;
    if (end > args.m) end = args.m;
    const long long tiles = (end - begin + kGroupedTile - 1) / kGroupedTile;
    const long long tiles_end = tiles_before + sum_up_to_lane(tiles, lane);
    const unsigned here = __ballot_sync(0xffffffffu, tile < tiles_end);
    if (here != 0) {
      const int source = __ffs(static_cast<int>(here)) - 1;
      const long long row = begin + (tile - (tiles_end - tiles)) * kGroupedTile;
      return {first + source, __shfl_sync(0xffffffffu, row, source),
              __shfl_sync(0xffffffffu, end, source)};
    }
    rows_before = __shfl_sync(0xffffffffu, end, 31);
    tiles_before = __shfl_sync(0xffffffffu, tiles_end, 31);
  }
  const long long row = rows_before + (tile - tiles_before) * kGroupedTile;
  if (row >= args.m) return {-1, 0, 0};
  return {args.experts, row, args.m};
}

// Gathers rows from arbitrary addresses into a tile in shared memory, like TileLoader.
template <class T>
struct RowLoader {
  using Acc = typename Arithmetic<T>::Acc;
  static constexpr int kLoads = kGroupedTile * kGroupedTileK / kTiledThreads;
  static constexpr int kRowStep = kTiledThreads / kGroupedTileK;
  static constexpr int kPitch = TileLoader<T, kGroupedTile, kGroupedTileK>::kPitch;

  const T* from[kLoads];
  long long tile_step;
  int k_first;
  int to;
  unsigned inside;  // bit i: row i of the thread is in range
  Acc value[kLoads];

  __device__ __forceinline__ RowLoader(const GroupedArgs& args, const GroupedPlace& place) {
    const int t = static_cast<int>(threadIdx.x);
    k_first = t % kGroupedTileK;
    tile_step = kGroupedTileK * args.x_k;
    to = k_first * kPitch + t / kGroupedTileK;
    inside = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const long long at = place.row + t / kGroupedTileK + i * kRowStep;
      long long row = 0;
      if (at < place.end) {
        row = args.rows == nullptr ? at : args.rows[at];
        inside |= 1u << i;
      }
      from[i] = static_cast<const T*>(args.x) + row * args.x_m + k_first * args.x_k;
    }
  }

  // The next tile, of which `k_left` columns exist.
  __device__ __forceinline__ void load(int k_left) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      value[i] = Acc{};
      if ((inside >> i & 1u) != 0 && k_first < k_left) value[i] = Arithmetic<T>::load(*from[i]);
      from[i] += tile_step;
    }
  }

  __device__ __forceinline__ void store(Acc* shared) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) shared[to + i * kRowStep] = value[i];
  }
};

template <class T>
__device__ __forceinline__ void write_rows(const GroupedArgs& args, const GroupedPlace& place,
                                           long long tile_n,
                                           const typename Arithmetic<T>::Acc (&acc)[4][4]) {
  using Part = Fragment<typename Arithmetic<T>::Acc, 4>;
  const int thread_m = static_cast<int>(threadIdx.x) / 16;
  const int thread_n = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const long long at = place.row + Part::place(i, thread_m);
    if (at >= place.end) continue;
    const long long row = args.rows == nullptr ? at : args.rows[at];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long col = tile_n * kGroupedTile + Part::place(j, thread_n);
      if (col >= args.n) continue;
      static_cast<T*>(args.c)[row * args.c_m + col * args.c_n] = from_compute<T>(acc[i][j]);
    }
  }
}

// Of the next tile.
__device__ __forceinline__ int columns_of(long long k_left) {
  return k_left < kGroupedTileK ? static_cast<int>(k_left) : kGroupedTileK;
}

template <class T>
__global__ void __launch_bounds__(kTiledThreads, 2) grouped_gemm_kernel(GroupedArgs args) {
  using Acc = typename Arithmetic<T>::Acc;
  using LoaderW = TileLoader<T, kGroupedTile, kGroupedTileK>;
  __shared__ __align__(16) Acc shared_x[2][kGroupedTileK * RowLoader<T>::kPitch];
  __shared__ __align__(16) Acc shared_w[2][kGroupedTileK * LoaderW::kPitch];
  const long long tile_m = blockIdx.x / args.tiles_n;
  const long long tile_n = blockIdx.x - tile_m * args.tiles_n;
  const GroupedPlace place = grouped_place(args, tile_m);
  if (place.expert < 0) return;
  Acc acc[4][4] = {};
  long long k_left = place.expert < args.experts ? args.k : 0;
  RowLoader<T> x(args, place);
  LoaderW w(static_cast<const T*>(args.w) + place.expert * args.w_e, static_cast<unsigned>(tile_n),
            args.n, args.w_n, args.w_k, 0);
  int buffer = 0;
  if (k_left > 0) {
    x.load(columns_of(k_left));
    w.load(columns_of(k_left));
    x.store(shared_x[0]);
    w.store(shared_w[0]);
    __syncthreads();
  }
  while (k_left > 0) {
    k_left -= kGroupedTileK;
    if (k_left > 0) {
      x.load(columns_of(k_left));
      w.load(columns_of(k_left));
    }
    multiply_tiles<T, kGroupedTileK, 4, 4>(shared_x[buffer], shared_w[buffer],
                                           static_cast<int>(threadIdx.x) / 16,
                                           static_cast<int>(threadIdx.x) % 16, acc);
    buffer ^= 1;
    if (k_left > 0) {
      x.store(shared_x[buffer]);
      w.store(shared_w[buffer]);
      __syncthreads();
    }
  }
  write_rows<T>(args, place, tile_n, acc);
}

__device__ __forceinline__ long long group_of(const GroupRowsArgs& args, long long row) {
  const long long id = args.ids[row * args.ids_step];
  return id >= 0 && id < args.experts ? id : args.experts;
}

__global__ void __launch_bounds__(1024) group_rows_kernel(GroupRowsArgs args) {
  const int t = static_cast<int>(threadIdx.x);
  for (long long e = t; e <= args.experts; e += 1024) args.sizes[e] = 0;
  __syncthreads();
  for (long long row = t; row < args.m; row += 1024) atomicAdd(args.sizes + group_of(args, row), 1);
  __syncthreads();
  if (t < 32) {
    long long before = 0;
    for (long long first = 0; first <= args.experts; first += 32) {
      const long long e = first + t;
      const long long size = e <= args.experts ? args.sizes[e] : 0;
      const long long end = before + sum_up_to_lane(size, t);
      if (e <= args.experts) args.next[e] = static_cast<int>(end - size);
      before = __shfl_sync(0xffffffffu, end, 31);
    }
  }
  __syncthreads();
  for (long long row = t; row < args.m; row += 1024)
    args.rows[atomicAdd(args.next + group_of(args, row), 1)] = static_cast<int>(row);
}

}  // namespace gpk
