// Stable sort of many short rows, each within one block: merge sort in shared memory. A block of T
// threads holds 8 * T slots, divided into segments of `segment` (a power of two from 8 to 8 * T)
// slots, one row of len <= segment keys each; unused slots hold the highest key after the row's
// own. Every thread sorts 8 adjacent keys in registers (odd-even transposition), then run lengths
// double: each thread finds its 8 outputs of a merge by binary search (merge path). Grid: ceil(rows
// / (8 * T / segment)). With kIndex the row position (or vals_in) is the payload, and the sorted
// keys are written only where keys_out is given. Shared: keys, then indices.
#pragma once

#include "common/vec.cuh"
#include "sorting/key.cuh"

namespace gpk {

constexpr int kOwn = BlockSortArgs::kItems;

// Narrow keys are held in whole registers: packed bytes cost more than they save.
template <class K, bool kNarrow = sizeof(K) < 4>
struct KeyRegister {
  using Type = K;
};
template <class K>
struct KeyRegister<K, true> {
  using Type = unsigned;
};

template <class K, bool kIndex>
struct BlockSort {
  using R = typename KeyRegister<K>::Type;
  static constexpr int kPerVec = 16 / sizeof(K) < kOwn ? 16 / sizeof(K) : kOwn;

  // Keys with indices merge the zeros when encoded.
  static __device__ __forceinline__ bool less(R a, R b, bool merge_zeros) {
    if constexpr (kIndex) return a < b;
    return rank_of(static_cast<K>(a), merge_zeros) < rank_of(static_cast<K>(b), merge_zeros);
  }

  static __device__ __forceinline__ void sort_own(R (&keys)[kOwn], unsigned (&vals)[kOwn],
                                                  bool merge_zeros) {
#pragma unroll
    for (int round = 0; round < kOwn; ++round) {
#pragma unroll
      for (int i = round % 2; i + 1 < kOwn; i += 2) {
        const bool swap = less(keys[i + 1], keys[i], merge_zeros);
        const R low = swap ? keys[i + 1] : keys[i];
        keys[i + 1] = swap ? keys[i] : keys[i + 1];
        keys[i] = low;
        if constexpr (kIndex) {
          const unsigned val = swap ? vals[i + 1] : vals[i];
          vals[i + 1] = swap ? vals[i] : vals[i + 1];
          vals[i] = val;
        }
      }
    }
  }

  static __device__ __forceinline__ void put_own(K* tile, unsigned* tile_vals,
                                                 const R (&keys)[kOwn],
                                                 const unsigned (&vals)[kOwn]) {
    const int at = threadIdx.x * kOwn;
#pragma unroll
    for (int i = 0; i < kOwn; i += kPerVec) {
      Vec<K, kPerVec> part;
#pragma unroll
      for (int j = 0; j < kPerVec; ++j) part.v[j] = static_cast<K>(keys[i + j]);
      store_vec<K, kPerVec>(tile + at + i, part);
    }
    if constexpr (kIndex) {
#pragma unroll
      for (int i = 0; i < kOwn; i += 4) {
        const Vec<unsigned, 4> part = {{vals[i], vals[i + 1], vals[i + 2], vals[i + 3]}};
        store_vec<unsigned, 4>(tile_vals + at + i, part);
      }
    }
  }

  // Merge path: the number of keys the first run contributes to the first `diagonal` of the merge
  // of two runs of `width` keys.
  static __device__ __forceinline__ int split(const K* a, const K* b, int width, int diagonal,
                                              bool merge_zeros) {
    int low = diagonal > width ? diagonal - width : 0;
    int high = diagonal < width ? diagonal : width;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (less(b[diagonal - 1 - middle], a[middle], merge_zeros))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  // The thread's slots of the merge of its two runs of `width`.
  static __device__ __forceinline__ void merge(const K* tile, const unsigned* tile_vals, int width,
                                               bool merge_zeros, R (&keys)[kOwn],
                                               unsigned (&vals)[kOwn]) {
    const int at = threadIdx.x * kOwn;
    const int begin = at & ~(2 * width - 1);
    const int diagonal = at - begin;
    const int taken = split(tile + begin, tile + begin + width, width, diagonal, merge_zeros);
    int a = begin + taken;
    int b = begin + width + diagonal - taken;
    const int end_a = begin + width;
    const int end_b = begin + 2 * width;
    R key_a = tile[a < end_a ? a : begin];
    R key_b = tile[b < end_b ? b : begin];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const bool take_b = b < end_b && (a >= end_a || less(key_b, key_a, merge_zeros));
      keys[i] = take_b ? key_b : key_a;
      if constexpr (kIndex) vals[i] = tile_vals[take_b ? b : a];
      if (take_b) {
        ++b;
        key_b = tile[b < end_b ? b : begin];
      } else {
        ++a;
        key_a = tile[a < end_a ? a : begin];
      }
    }
  }

  static __device__ __forceinline__ void load(const BlockSortArgs& args, int slots, K* tile,
                                              unsigned* tile_vals) {
    const long long first_row = static_cast<long long>(blockIdx.x) * (slots >> args.segment_bits);
    for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
      const long long row = first_row + (slot >> args.segment_bits);
      const int at = slot & ((1 << args.segment_bits) - 1);
      const bool used = row < args.rows && at < args.len;
      const long long from = row * args.len + at;
      tile[slot] = used ? encode_key(static_cast<const K*>(args.keys_in)[from], args.order, kIndex)
                        : KeyBits<K>::kAll;
      if constexpr (kIndex) {
        const bool given = used && args.vals_in != nullptr;
        tile_vals[slot] = given ? args.vals_in[from] : static_cast<unsigned>(at);
      }
    }
  }

  static __device__ __forceinline__ void store(const BlockSortArgs& args, int slots, const K* tile,
                                               const unsigned* tile_vals) {
    const long long first_row = static_cast<long long>(blockIdx.x) * (slots >> args.segment_bits);
    for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
      const long long row = first_row + (slot >> args.segment_bits);
      const int at = slot & ((1 << args.segment_bits) - 1);
      if (row >= args.rows || at >= args.len) continue;
      const long long to = row * args.len + at;
      if (args.keys_out != nullptr)
        static_cast<K*>(args.keys_out)[to] = decode_key(tile[slot], args.order);
      if constexpr (kIndex) {
        if (args.widen != 0)
          static_cast<long long*>(args.vals_out)[to] = tile_vals[slot];
        else
          static_cast<unsigned*>(args.vals_out)[to] = tile_vals[slot];
      }
    }
  }
};

template <class K, bool kIndex>
__global__ void __launch_bounds__(1024) block_sort_kernel(const BlockSortArgs args) {
  using Sort = BlockSort<K, kIndex>;
  extern __shared__ __align__(16) unsigned char tile_bytes[];
  const int slots = blockDim.x * kOwn;
  K* tile = reinterpret_cast<K*>(tile_bytes);
  unsigned* tile_vals = reinterpret_cast<unsigned*>(tile + slots);
  const bool merge_zeros = args.order.kind == KeyKind::kFloat;
  Sort::load(args, slots, tile, tile_vals);
  __syncthreads();
  typename Sort::R keys[kOwn];
  unsigned vals[kOwn];
  const int at = threadIdx.x * kOwn;
#pragma unroll
  for (int i = 0; i < kOwn; i += Sort::kPerVec) {
    const auto part = load_vec<K, Sort::kPerVec>(tile + at + i);
#pragma unroll
    for (int j = 0; j < Sort::kPerVec; ++j) keys[i + j] = part.v[j];
  }
  if constexpr (kIndex) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) vals[i] = tile_vals[at + i];
  }
  Sort::sort_own(keys, vals, merge_zeros);
  __syncthreads();
  Sort::put_own(tile, tile_vals, keys, vals);
  __syncthreads();
  for (int width = kOwn; width < 1 << args.segment_bits; width *= 2) {
    Sort::merge(tile, tile_vals, width, merge_zeros, keys, vals);
    __syncthreads();
    Sort::put_own(tile, tile_vals, keys, vals);
    __syncthreads();
  }
  Sort::store(args, slots, tile, tile_vals);
}

}  // namespace gpk
