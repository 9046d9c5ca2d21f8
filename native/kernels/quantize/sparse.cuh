// 2:4 sparsity: of every four weights of a row the two of largest magnitude, ties to the first.
//   values   [n, values_row]: both of each four in order; 0 past k
//   metadata [n / 16, k / 64][32 words], rounded up: lane 4 g + t of a block has columns 16 t to
//            16 t + 15 of rows g (low half) and g + 8. Four bits for each four columns, from the
//            lowest on: the places of both values, two bits each, ascending. Past n and k: 0 and 1.
// That is what mma.sp takes for 32 columns from lanes 0 and 1 of a quad, for the next 32 from lanes
// 2 and 3 (common/mma_sparse.cuh). A thread per word of metadata.
#pragma once

#include "args/quantize.h"
#include "common/dtype.cuh"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

// Of a thread: its word, and where that word's columns are.
struct SparseWord {
  long long index, row, column;  // row: of the low half

  __device__ __forceinline__ explicit SparseWord(const SparseArgs& args) {
    index = static_cast<long long>(blockIdx.x) * kQuantizeThreads + static_cast<int>(threadIdx.x);
    const int lane = static_cast<int>(index % 32);
    const long long block = index / 32;
    row = block / args.k_blocks * 16 + lane / 4;
    column = block % args.k_blocks * 64 + lane % 4 * 16;
  }
  // Whether row `h` (0 or 1) of the word has stored values.
  __device__ __forceinline__ bool is_stored(const SparseArgs& args, int h) const {
    return row + 8 * h < args.n && column / 2 < args.values_row;
  }
};

// 0, 1, 2 or 3 of `x`.
template <class T>
__device__ __forceinline__ T pick(const T (&x)[4], unsigned place) {
  return place == 0 ? x[0] : place == 1 ? x[1] : place == 2 ? x[2] : x[3];
}

// The places of the two largest magnitudes, ascending: two bits each.
__device__ __forceinline__ unsigned two_largest(const float (&x)[4]) {
  bool kept[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int larger = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (j != i) larger += x[j] > x[i] || (x[j] == x[i] && j < i) ? 1 : 0;
    kept[i] = larger < 2;
  }
  const unsigned first = kept[0] ? 0 : kept[1] ? 1 : 2;
  const unsigned second = kept[3] ? 3 : kept[2] ? 2 : 1;
  return first | second << 2;
}

template <class T>
__global__ void __launch_bounds__(kQuantizeThreads) sparsify(const SparseArgs args) {
  const SparseWord word(args);
  if (word.row / 16 * 16 >= args.n) return;
  unsigned bits = 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const long long row = word.row + 8 * h;
    const T* const from = static_cast<const T*>(args.w) + row * args.w_row + word.column;
    Vec<T, 8> stored;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      T x[4];
      float magnitudes[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool inside = row < args.n && word.column + 4 * q + i < args.k;
        x[i] = inside ? from[4 * q + i] : T{};
        magnitudes[i] = fabsf(convert<float>(x[i]));
      }
      const unsigned places = two_largest(magnitudes);
      stored.v[2 * q] = pick(x, places & 3u);
      stored.v[2 * q + 1] = pick(x, places >> 2);
      bits |= places << (16 * h + 4 * q);
    }
    if (word.is_stored(args, h))
      store_vec<T, 8>(static_cast<T*>(args.values) + row * args.values_row + word.column / 2,
                      stored);
  }
  args.metadata[word.index] = bits;
}

// The numbers, [n, k], each rounded once to Out.
template <class T, class Out>
__global__ void __launch_bounds__(kQuantizeThreads) expand_sparse(const SparseArgs args) {
  constexpr int kVec = 16 / static_cast<int>(sizeof(Out));
  const SparseWord word(args);
  if (word.row / 16 * 16 >= args.n) return;
  const unsigned bits = args.metadata[word.index];
  const bool wide =
      args.k % kVec == 0 && (reinterpret_cast<unsigned long long>(args.out) & 15u) == 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (!word.is_stored(args, h)) continue;
    const long long row = word.row + 8 * h;
    const Vec<T, 8> stored = load_vec<T, 8>(static_cast<const T*>(args.values) +
                                            row * args.values_row + word.column / 2);
    Vec<Out, kVec> y[16 / kVec];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const unsigned places = bits >> (16 * h + i / 4 * 4);
      const unsigned at = static_cast<unsigned>(i % 4);
      T x = (places & 3u) == at ? stored.v[i / 4 * 2] : T{};
      if ((places >> 2 & 3u) == at) x = stored.v[i / 4 * 2 + 1];
      y[i / kVec].v[i % kVec] = convert<Out>(x);
    }
    Out* const to = static_cast<Out*>(args.out) + row * args.k + word.column;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (word.column + i >= args.k) break;
      if (!wide) {
        to[i] = y[i / kVec].v[i % kVec];
      } else if (i % kVec == 0) {
        store_vec<Out, kVec>(to + i, y[i / kVec]);
      }
    }
  }
}

}  // namespace gpk
