// One pass of a stable radix sort by 8-bit digit `pass`: each key is read and written once. A tile
// of kThreads * kItems keys goes to one block, in the order of an atomic counter. The block counts
// its digits, publishes the counts, ranks its keys within the tile by warp-level matching, and
// orders them in shared memory; it then sums the counts of all earlier tiles of the row (decoupled
// look-back) and writes each digit's run to its destination. Rows of len keys, contiguous; several
// rows or one portion of one row per launch. The first pass encodes keys, the last decodes them;
// passes over a constant digit are no-ops: which these are, and so which buffer is read, follows
// from *active (radix_histogram.cuh). Values (V) are row positions unless vals_in is given. Shared:
// tile of keys, then of values.
#pragma once

#include "sorting/key.cuh"

namespace gpk {

struct NoValue {};

struct PassRoute {
  const void* keys_in;
  void* keys_out;
  const void* vals_in;  // null: positions
  void* vals_out;
  bool first, last;
};

constexpr unsigned kCountOnly = 1u << 30;  // a tile's own counts
constexpr unsigned kSumSoFar = 2u << 30;   // including all tiles before it
constexpr unsigned kCountBits = (1u << 30) - 1;

__device__ __forceinline__ unsigned load_relaxed(const unsigned* p) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

__device__ __forceinline__ void store_relaxed(unsigned* p, unsigned value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}

__device__ __forceinline__ void store_global(uint64 to, unsigned char value) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(to), "r"(static_cast<unsigned>(value)));
}
__device__ __forceinline__ void store_global(uint64 to, unsigned short value) {
  asm volatile("st.global.u16 [%0], %1;" ::"l"(to), "h"(value));
}
__device__ __forceinline__ void store_global(uint64 to, unsigned value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(value));
}
__device__ __forceinline__ void store_global(uint64 to, uint64 value) {
  asm volatile("st.global.u64 [%0], %1;" ::"l"(to), "l"(value));
}

// The passes that run alternate between keys_out and keys_tmp, ending in keys_out.
__device__ __forceinline__ PassRoute route_pass(const PassArgs& args, unsigned active) {
  const int done = __popc(active & ((1u << args.pass) - 1));
  const int left = __popc(active >> (args.pass + 1));
  PassRoute route;
  route.first = done == 0;
  route.last = left == 0;
  const bool even = left % 2 == 0;
  route.keys_out = even ? args.keys_out : args.keys_tmp;
  route.keys_in = route.first ? args.keys_in : even ? args.keys_tmp : args.keys_out;
  route.vals_in = route.first ? args.vals_in : done % 2 == 1 ? args.vals_tmp0 : args.vals_tmp1;
  route.vals_out = route.last ? args.vals_out : done % 2 == 0 ? args.vals_tmp0 : args.vals_tmp1;
  return route;
}

// Lanes whose bit equals this lane's. In PTX, since C++ takes twice the instructions.
template <int kBit>
__device__ __forceinline__ unsigned match_bit(unsigned digit) {
  unsigned mask;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "and.b32 %0, %1, %2;\n\t"
      "setp.ne.b32 p, %0, 0;\n\t"
      "vote.sync.ballot.b32 %0, p, 0xffffffff;\n\t"
      "@!p not.b32 %0, %0;\n\t}"
      : "=&r"(mask)
      : "r"(digit), "n"(1 << kBit));
  return mask;
}

__device__ __forceinline__ unsigned and3(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0x80;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

// Lanes with the same digit.
__device__ __forceinline__ unsigned match_digit(unsigned digit) {
  const unsigned low = and3(match_bit<0>(digit), match_bit<1>(digit), match_bit<2>(digit));
  const unsigned middle = and3(low, match_bit<3>(digit), match_bit<4>(digit));
  const unsigned high = and3(middle, match_bit<5>(digit), match_bit<6>(digit));
  return high & match_bit<7>(digit);
}

__device__ __forceinline__ unsigned lanes_up_to_here() {
  unsigned mask;
  asm("mov.u32 %0, %%lanemask_le;" : "=r"(mask));
  return mask;
}

// Sum of the counts of the tiles before `tile` in its row (t of them), for one digit.
__device__ __forceinline__ unsigned look_back(const unsigned* words, unsigned t) {
  unsigned sum = 0;
  while (t > 0) {
    words -= 256;
    --t;
    unsigned word = load_relaxed(words);
    while (word < kCountOnly) word = load_relaxed(words);
    sum += word & kCountBits;
    if (word >= kSumSoFar) break;
  }
  return sum;
}

template <class K, class V, int kThreads, int kItems, bool kMergeZeros>
struct Onesweep {
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kTile = kThreads * kItems;
  static constexpr bool kPairs = sizeof(V) >= 4;

  struct Shared {
    unsigned counts[kWarps][256];  // per warp; later the next position for each digit
    // Start of a digit's run minus its offset in the tile: elements; keys only: bytes.
    uint64 bases[256];
    unsigned warp_sums[8];
    unsigned tile;
  };

  static __device__ __forceinline__ unsigned digit(K key, const PassArgs& args) {
    return key_digit(rank_of(key, kMergeZeros), static_cast<int>(args.pass));
  }

  // Items of a warp are consecutive: lane l's item i is 32 * i + l. Slots beyond `valid` get the
  // highest key, and so stay at the end of the tile.
  static __device__ __forceinline__ void load(const PassArgs& args, const PassRoute& route,
                                              long long at, long long row_at, int valid,
                                              K (&keys)[kItems], V (&vals)[kItems]) {
    const int own = static_cast<int>(threadIdx.x >> 5) * (kItems * 32) + (threadIdx.x & 31);
    const K* in = static_cast<const K*>(route.keys_in) + at + own;
    if (valid == kTile) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) keys[i] = in[i * 32];
    } else {
#pragma unroll
      for (int i = 0; i < kItems; ++i) keys[i] = own + i * 32 < valid ? in[i * 32] : K(0);
    }
    if constexpr (kPairs) {
      const V* from = static_cast<const V*>(route.vals_in) + at + own;
      if (route.vals_in == nullptr) {
#pragma unroll
        for (int i = 0; i < kItems; ++i) vals[i] = static_cast<V>(row_at + own + i * 32);
      } else {
#pragma unroll
        for (int i = 0; i < kItems; ++i) vals[i] = own + i * 32 < valid ? from[i * 32] : V(0);
      }
    }
    if (route.first) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) keys[i] = encode_key(keys[i], args.order, kPairs);
    }
    if (valid < kTile) {
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (own + i * 32 >= valid) keys[i] = KeyBits<K>::kAll;
    }
  }

  // Converts counts per warp to positions in the tile; publishes the tile's counts. Returns (for
  // threads below 256) the tile's count of that digit and where its run starts.
  static __device__ __forceinline__ void place_digits(Shared& shared, unsigned* words, bool first,
                                                      unsigned& total, unsigned& start) {
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    total = 0;
    if (tid < 256) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += shared.counts[w][tid];
      store_relaxed(words + tid, (first ? kSumSoFar : kCountOnly) | total);
    }
    unsigned sum = total;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const unsigned other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31 && tid < 256) shared.warp_sums[tid >> 5] = sum;
    __syncthreads();
    if (tid < 256) {
      start = sum - total;
      for (int w = 0; w < tid >> 5; ++w) start += shared.warp_sums[w];
      unsigned place = start;
#pragma unroll 4  // limits registers: all keys are live here
      for (int w = 0; w < kWarps; ++w) {
        const unsigned count = shared.counts[w][tid];
        shared.counts[w][tid] = place;
        place += count;
      }
    }
    __syncthreads();
  }

  // Stable: earlier items of the warp are already placed, lower lanes come first.
  static __device__ __forceinline__ void order_tile(const PassArgs& args, unsigned* places,
                                                    const K (&keys)[kItems],
                                                    const V (&vals)[kItems], K* tile_keys,
                                                    V* tile_vals) {
    const unsigned up_to_here = lanes_up_to_here();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const unsigned d = digit(keys[i], args);
      const unsigned same = match_digit(d);
      const unsigned end = places[d] + __popc(same & up_to_here);
      __syncwarp();
      if ((same & ~up_to_here) == 0) places[d] = end;  // the highest lane with this digit
      __syncwarp();
      tile_keys[end - 1] = keys[i];
      if constexpr (kPairs) tile_vals[end - 1] = vals[i];
    }
  }

  template <bool kLast>
  static __device__ __forceinline__ void write_one(const PassArgs& args, const PassRoute& route,
                                                   const Shared& shared, int at, const K* tile_keys,
                                                   const V* tile_vals) {
    const K key = tile_keys[at];
    const uint64 base = shared.bases[digit(key, args)];
    const K bits = kLast ? decode_key(key, args.order) : key;
    if constexpr (!kPairs) {
      store_global(base + static_cast<unsigned>(at) * sizeof(K), bits);
    } else {
      const uint64 to = base + static_cast<unsigned>(at);
      if (!kLast || (args.flags & kDropKeys) == 0) static_cast<K*>(route.keys_out)[to] = bits;
      if (kLast && (args.flags & kWidenValues) != 0)
        static_cast<long long*>(route.vals_out)[to] = static_cast<long long>(tile_vals[at]);
      else
        static_cast<V*>(route.vals_out)[to] = tile_vals[at];
    }
  }

  template <bool kLast>
  static __device__ __forceinline__ void write(const PassArgs& args, const PassRoute& route,
                                               const Shared& shared, int valid, const K* tile_keys,
                                               const V* tile_vals) {
    const int tid = threadIdx.x;
    if (valid == kTile) {
#pragma unroll 8
      for (int i = 0; i < kItems; ++i)
        write_one<kLast>(args, route, shared, tid + i * kThreads, tile_keys, tile_vals);
    } else {
      for (int at = tid; at < valid; at += kThreads)
        write_one<kLast>(args, route, shared, at, tile_keys, tile_vals);
    }
  }

  static __device__ __forceinline__ void clear_next(const PassArgs& args, unsigned tile) {
    if (threadIdx.x >= 256) return;
    for (unsigned t = tile; t < args.num_tiles_next; t += args.num_tiles)
      args.lookback_next[t * 256ull + threadIdx.x] = 0;
  }

  static __device__ __forceinline__ void run(const PassArgs& args, Shared& shared, K* tile_keys,
                                             V* tile_vals) {
    const int tid = threadIdx.x;
    const unsigned found = *args.active;
    const unsigned active = found == 0 ? 1u : found;
    if ((active >> args.pass & 1u) == 0) return clear_next(args, blockIdx.x);
    if (tid == 0) shared.tile = atomicAdd(args.counter, 1u);
    for (int i = tid; i < kWarps * 256; i += kThreads) shared.counts[i / 256][i % 256] = 0;
    __syncthreads();
    const PassRoute route = route_pass(args, active);
    const unsigned tile = shared.tile;
    const unsigned row = tile / args.tiles_per_row;
    const unsigned t = tile % args.tiles_per_row;
    const long long row_at = args.first + static_cast<long long>(t) * kTile;
    const int valid = args.end - row_at < kTile ? static_cast<int>(args.end - row_at) : kTile;
    K keys[kItems];
    V vals[kItems];
    load(args, route, row * args.len + row_at, row_at, valid, keys, vals);

    unsigned* places = shared.counts[tid >> 5];
#pragma unroll
    for (int i = 0; i < kItems; ++i) atomicAdd(places + digit(keys[i], args), 1u);
    __syncthreads();
    unsigned* words = args.lookback + tile * 256ull;
    unsigned total = 0;
    unsigned start = 0;
    place_digits(shared, words, t == 0, total, start);
    // Issued here, so that it has arrived when the look-back ends.
    const uint64 run = tid < 256 ? args.starts[row * args.starts_stride + tid] : 0;
    order_tile(args, places, keys, vals, tile_keys, tile_vals);
    clear_next(args, tile);
    if (tid < 256) {
      const unsigned before = look_back(words + tid, t);
      if (t > 0) store_relaxed(words + tid, kSumSoFar | (before + total));
      const uint64 base = run + before;
      const uint64 to = row * args.len + base - start;
      shared.bases[tid] = kPairs ? to : reinterpret_cast<uint64>(route.keys_out) + to * sizeof(K);
      if (args.carry_out != nullptr && t == args.tiles_per_row - 1)
        args.carry_out[tid] = base + total;
    }
    __syncthreads();
    if (route.last)
      write<true>(args, route, shared, valid, tile_keys, tile_vals);
    else
      write<false>(args, route, shared, valid, tile_keys, tile_vals);
  }
};

template <class K, class V, int kThreads, int kItems, int kMinBlocks, bool kMergeZeros>
__global__ void __launch_bounds__(kThreads, kMinBlocks) onesweep_kernel(const PassArgs args) {
  using Pass = Onesweep<K, V, kThreads, kItems, kMergeZeros>;
  extern __shared__ __align__(16) unsigned char tile_bytes[];
  __shared__ typename Pass::Shared shared;
  // Values first: they are at least as wide as the narrow keys' alignment needs.
  V* tile_vals = reinterpret_cast<V*>(tile_bytes);
  K* tile_keys = reinterpret_cast<K*>(tile_bytes + (Pass::kPairs ? Pass::kTile * sizeof(V) : 0));
  Pass::run(args, shared, tile_keys, tile_vals);
}

}  // namespace gpk
