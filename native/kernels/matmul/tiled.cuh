// C = A B, batched, arbitrary strides. A block of 256 threads computes a tile of C, 16 x 16 threads
// of kPerM x kPerN elements each. K goes through shared memory kTileK at a time, double buffered,
// as [k][row] in the accumulator type; the next tiles are loaded into registers while one is used.
// Threads map to the elements of an operand so that accesses coalesce (along k or along the other
// axis, by its strides). Out-of-range reads give zeros. Grid: x batches of tiles, column first; y
// split-K. Every element is summed in order of k.
#pragma once

#include "common/vec.cuh"
#include "matmul/arithmetic.cuh"

namespace gpk {

constexpr int kTiledThreads = 256;

// Loads one operand's tiles into shared memory: "row" is m for A, n for B.
template <class T, int kTile, int kTileK>
struct TileLoader {
  using Acc = typename Arithmetic<T>::Acc;
  static constexpr int kLoads = kTile * kTileK / kTiledThreads;
  static constexpr int kPitch = kTile + 16 / static_cast<int>(sizeof(Acc));

  const T* from;        // the thread's first element
  long long load_step;  // stride between its elements
  long long tile_step;  // stride between tiles
  int k_first, k_step;  // k of its elements, inside the tile
  int to, to_step;      // their positions in shared memory
  unsigned inside;      // bit i: the row of element i is in range
  Acc value[kLoads];

  __device__ __forceinline__ TileLoader(const T* base, unsigned tile, long long num_rows,
                                        long long row_stride, long long k_stride, long long k) {
    const int t = static_cast<int>(threadIdx.x);
    const long long first_row = static_cast<long long>(tile) * kTile;
    const bool along_k =
        (k_stride < 0 ? -k_stride : k_stride) <= (row_stride < 0 ? -row_stride : row_stride);
    const int row = along_k ? t / kTileK : t % kTile;
    const int row_step = along_k ? kTiledThreads / kTileK : 0;
    k_first = along_k ? t % kTileK : t / kTile;
    k_step = along_k ? 0 : kTiledThreads / kTile;
    from = base + (first_row + row) * row_stride + (k + k_first) * k_stride;
    load_step = row_step * row_stride + k_step * k_stride;
    tile_step = kTileK * k_stride;
    to = k_first * kPitch + row;
    to_step = k_step * kPitch + row_step;
    inside = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      if (first_row + row + i * row_step < num_rows) inside |= 1u << i;
  }

  // The next tile, of which `k_left` columns exist.
  __device__ __forceinline__ void load(int k_left) {
    const T* p = from;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      value[i] = Acc{};
      if ((inside >> i & 1u) != 0 && k_first + i * k_step < k_left)
        value[i] = Arithmetic<T>::load(*p);
      p += load_step;
    }
    from += tile_step;
  }

  __device__ __forceinline__ void store(Acc* shared) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) shared[to + i * to_step] = value[i];
  }
};

// A thread's rows (or columns) come in groups of 16 bytes, strided by the width of all threads'
// groups, so that a warp's shared memory reads are wide and free of bank conflicts.
template <class Acc, int kPer>
struct Fragment {
  static constexpr int kVec = 16 / static_cast<int>(sizeof(Acc));
  static constexpr int kGroups = kPer / kVec;
  Vec<Acc, kVec> part[kGroups];

  __device__ __forceinline__ void load(const Acc* line, int thread) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      part[g] = load_vec<Acc, kVec>(line + (g * 16 + thread) * kVec);
  }
  __device__ __forceinline__ Acc operator[](int i) const { return part[i / kVec].v[i % kVec]; }
  static __device__ __forceinline__ int place(int i, int thread) {
    return (i / kVec * 16 + thread) * kVec + i % kVec;
  }
};

template <class T, int kTileK, int kPerM, int kPerN>
__device__ __forceinline__ void multiply_tiles(const typename Arithmetic<T>::Acc* a,
                                               const typename Arithmetic<T>::Acc* b, int thread_m,
                                               int thread_n,
                                               typename Arithmetic<T>::Acc (&acc)[kPerM][kPerN]) {
  using Acc = typename Arithmetic<T>::Acc;
  constexpr int kPitchA = TileLoader<T, 16 * kPerM, kTileK>::kPitch;
  constexpr int kPitchB = TileLoader<T, 16 * kPerN, kTileK>::kPitch;
#pragma unroll
  for (int k = 0; k < kTileK; ++k) {
    Fragment<Acc, kPerM> x;
    Fragment<Acc, kPerN> y;
    x.load(a + k * kPitchA, thread_m);
    y.load(b + k * kPitchB, thread_n);
#pragma unroll
    for (int i = 0; i < kPerM; ++i)
#pragma unroll
      for (int j = 0; j < kPerN; ++j) Arithmetic<T>::multiply_into(acc[i][j], x[i], y[j]);
  }
}

template <class T, int kPerM, int kPerN>
__device__ __forceinline__ void write_tile(const MatmulArgs& args, unsigned tile_m, unsigned tile_n,
                                           unsigned batch, int thread_m, int thread_n,
                                           const typename Arithmetic<T>::Acc (&acc)[kPerM][kPerN]) {
  using Acc = typename Arithmetic<T>::Acc;
  constexpr int kTileM = 16 * kPerM;
  constexpr int kTileN = 16 * kPerN;
  const long long first_m = static_cast<long long>(tile_m) * kTileM;
  const long long first_n = static_cast<long long>(tile_n) * kTileN;
  const int rows = static_cast<int>(args.m - first_m < kTileM ? args.m - first_m : kTileM);
  const int cols = static_cast<int>(args.n - first_n < kTileN ? args.n - first_n : kTileN);
  const bool whole = args.partial == nullptr;
  const long long row_step = whole ? args.c_m : args.n;
  const long long col_step = whole ? args.c_n : 1;
  const long long first = (whole ? batch_offsets(args, batch).c
                                 : (blockIdx.y * args.num_batches + batch) * args.m * args.n) +
                          first_m * row_step + first_n * col_step;
#pragma unroll
  for (int i = 0; i < kPerM; ++i) {
    const int row = Fragment<Acc, kPerM>::place(i, thread_m);
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < kPerN; ++j) {
      const int col = Fragment<Acc, kPerN>::place(j, thread_n);
      if (col >= cols) continue;
      const long long at = first + row * row_step + col * col_step;
      if (whole) {
        static_cast<T*>(args.c)[at] = from_compute<T>(acc[i][j]);
      } else {
        static_cast<Acc*>(args.partial)[at] = acc[i][j];
      }
    }
  }
}

template <class T, int kTileK, int kPerM, int kPerN>
__global__ void __launch_bounds__(kTiledThreads, sizeof(typename Arithmetic<T>::Acc) == 4 ? 2 : 1)
    matmul_tiled_kernel(MatmulArgs args, unsigned tiles_m, unsigned tiles_n) {
  using Acc = typename Arithmetic<T>::Acc;
  using LoaderA = TileLoader<T, 16 * kPerM, kTileK>;
  using LoaderB = TileLoader<T, 16 * kPerN, kTileK>;
  __shared__ __align__(16) Acc shared_a[2][kTileK * LoaderA::kPitch];
  __shared__ __align__(16) Acc shared_b[2][kTileK * LoaderB::kPitch];
  const unsigned tile_n = blockIdx.x % tiles_n;
  const unsigned tile_m = blockIdx.x / tiles_n % tiles_m;
  const unsigned batch = blockIdx.x / tiles_n / tiles_m;
  const int thread_m = static_cast<int>(threadIdx.x) / 16;
  const int thread_n = static_cast<int>(threadIdx.x) % 16;

  Acc acc[kPerM][kPerN] = {};
  const long long k_first = blockIdx.y * args.k_per_split;
  const BatchOffsets at = batch_offsets(args, batch);
  LoaderA a(static_cast<const T*>(args.a) + at.a, tile_m, args.m, args.a_m, args.a_k, k_first);
  LoaderB b(static_cast<const T*>(args.b) + at.b, tile_n, args.n, args.b_n, args.b_k, k_first);
  int k_left =
      static_cast<int>(args.k - k_first < args.k_per_split ? args.k - k_first : args.k_per_split);
  int buffer = 0;
  if (k_left > 0) {
    a.load(k_left);
    b.load(k_left);
    a.store(shared_a[0]);
    b.store(shared_b[0]);
    __syncthreads();
  }
  while (k_left > 0) {
    k_left -= kTileK;
    if (k_left > 0) {
      a.load(k_left);
      b.load(k_left);
    }
    multiply_tiles<T, kTileK, kPerM, kPerN>(shared_a[buffer], shared_b[buffer], thread_m, thread_n,
                                            acc);
    buffer ^= 1;
    if (k_left > 0) {
      a.store(shared_a[buffer]);
      b.store(shared_b[buffer]);
      __syncthreads();
    }
  }
  write_tile<T, kPerM, kPerN>(args, tile_m, tile_n, batch, thread_m, thread_n, acc);
}

}  // namespace gpk
