// Attention of many queries on SM90a: out = softmax(scale q k^T) v, flash attention with wgmma and
// TMA. A block is one producer warpgroup and kConsumers consumers of 64 query rows each. K and V
// arrive in rings of kStages tiles of kTileN keys, 128-byte swizzle; paged ones in a copy for each
// page of a tile. Consumers take turns (ping-pong): while one runs its softmax the others have the
// tensor cores; within a consumer the scores of the next tile are computed beside P V of the last
// one. P stays in registers. Blocks are persistent. Tiles of the longest rows come first, heads in
// sections that share the L2.
// Grid -> data: blocks step through tiles of 64 * kConsumers queries of one head.
// Numerics: scores, softmax and sums in float32, P rounded to T.
#pragma once

#include "args/attention.h"
#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "common/dependent_launch.cuh"
#include "common/dtype.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"

namespace gpk {

template <class T, int kDim, int kTileN, int kConsumers, int kStages, bool kSoftcap>
struct PrefillWgmma {
  static constexpr int kTileM = 64 * kConsumers;
  static constexpr int kPanels = kDim / 64;  // of 64 elements, 128 bytes
  static constexpr int kBytesQ = kTileM * kDim * 2;
  static constexpr int kBytesKv = kTileN * kDim * 2;
  static constexpr int kBuffersQ = kDim > 128 ? 1 : 2;
  static constexpr int kNumBarriers = 2 * kBuffersQ + 4 * kStages;
  static constexpr int kSharedBytes =
      1024 + kBuffersQ * kBytesQ + 2 * kStages * kBytesKv + 8 * kNumBarriers;
  static_assert(kDim % 64 == 0 && kTileN % 16 == 0);

  // One tile of queries.
  struct Tile {
    Sequence sequence;
    int head;
    int row;          // first query
    int first, last;  // tiles of keys, [first, last)
  };

  // False: no queries.
  static __device__ __forceinline__ bool tile_at(const AttentionArgs& args, int unit, Tile& tile) {
    const int tiles = (args.q_len + kTileM - 1) / kTileM;
    const int per_section = tiles * args.section;
    const int section = unit / per_section;
    const int rest = unit - section * per_section;
    const int heads = min(args.section, args.batch * args.heads - section * args.section);
    const int m = rest / heads;
    const int head = section * args.section + rest - m * heads;
    const int batch = head / args.heads;
    tile.sequence = Sequence(args, batch);
    tile.head = head - batch * args.heads;
    tile.row = (tiles - 1 - m) * kTileM;
    const int last = min(tile.row + kTileM, tile.sequence.q_len) - 1;
    tile.first = tile.sequence.from(args, tile.row) / kTileN;
    tile.last = (tile.sequence.to(args, last) + kTileN - 1) / kTileN;
    return tile.row < tile.sequence.q_len;
  }

  static __device__ __forceinline__ int unit_of(int round) {
    const int blocks = static_cast<int>(gridDim.x);
    const int block = static_cast<int>(blockIdx.x);
    return round * blocks + ((round & 1) == 0 ? block : blocks - 1 - block);
  }

  // Computed again rather than kept in registers.
  static __device__ __forceinline__ int opaque(int x) {
    auto word = static_cast<unsigned>(x);
    hide(word);
    return static_cast<int>(word);
  }

  // The thread's upper row of the block's tile.
  static __device__ __forceinline__ int own_row() {
    const int thread = opaque(static_cast<int>(threadIdx.x)) - 128;
    return (thread >> 5) * 16 + ((thread & 31) >> 2);
  }

  // --- Producer ----------------------------------------------------------------------------------

  // Keys or values of tile n. Rows past the last page are outside of the tensor: zeros.
  static __device__ __forceinline__ void load_tile(unsigned to, const TensorMap& map,
                                                   unsigned barrier, const AttentionArgs& args,
                                                   const Sequence& sequence, int kv_head, int n) {
    barrier_expect(barrier, kBytesKv);
    if (args.blocks == nullptr) {
      const int packed = args.k_starts != nullptr ? 0 : sequence.batch;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel)
        load_box(to + panel * kTileN * 128, map, barrier, panel * 64, sequence.k_start + n * kTileN,
                 kv_head, packed);
      return;
    }
    const int* const blocks =
        args.blocks + static_cast<long long>(sequence.batch) * args.blocks_row;
#pragma unroll 1
    for (int row = 0; row < kTileN; row += args.page_rows) {
      const int key = n * kTileN + row;
      const int page = key < sequence.length ? blocks[key >> args.page_log2] : -1;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel)
        load_box(to + (panel * kTileN + row) * 128, map, barrier, panel * 64,
                 key & ((1 << args.page_log2) - 1), kv_head, page);
    }
  }

  // --- Consumer ----------------------------------------------------------------------------------

  static __device__ __forceinline__ void multiply_qk(float (&s)[kTileN / 2], unsigned q,
                                                     unsigned k) {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const unsigned long long a = operand(q + panel * kTileM * 128, 0);
      const unsigned long long b = operand(k + panel * kTileN * 128, 0);
#pragma unroll
      for (int step = 0; step < 4; ++step)
        Wgmma<kTileN, T, T, 0, 0>::run(s, a + step * 2, b + step * 2, panel + step > 0 ? 1 : 0);
    }
  }

  static __device__ __forceinline__ void multiply_pv(float (&o)[kDim / 2],
                                                     const unsigned (&p)[kTileN / 4], unsigned v) {
    const unsigned long long b = operand(v, kTileN * 128);
#pragma unroll
    for (int step = 0; step < kTileN / 16; ++step)
      WgmmaRegisters<kDim, T, 1>::run(o, &p[4 * step], b + step * 128, 1);
  }

  // Rows after the last key may hold anything, and 0 * NaN is NaN.
  static __device__ __forceinline__ void clear_values(unsigned v, int first) {
    constexpr int kPieces = kDim / 8;
    const int thread = static_cast<int>(threadIdx.x) & 127;
    const unsigned zeros[4] = {0, 0, 0, 0};
    for (int i = thread + first * kPieces; i < kTileN * kPieces; i += 128) {
      const int row = i / kPieces;
      const int piece = i - row * kPieces;
      store_shared_quad(v + (piece / 8 * kTileN + row) * 128 + piece % 8 * 16, zeros);
    }
  }

  // Scores of tile n that rows do not see become -inf.
  static __device__ __forceinline__ void mask_scores(float (&s)[kTileN / 2],
                                                     const AttentionArgs& args, const Tile& tile,
                                                     int n) {
    const int at = tile.row + tile.sequence.shift;  // of the first row
    if ((n + 1) * kTileN <= min(at + args.right + 1, tile.sequence.length) &&
        n * kTileN >= at + kTileM - 1 - args.left)
      return;
    const int key = n * kTileN + 2 * (static_cast<int>(threadIdx.x) & 3);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = at + own_row() + 8 * half;
      const int first = own - args.left - key;
      const int last = min(own + args.right, tile.sequence.length - 1) - key;
#pragma unroll
      for (int g = 0; g < kTileN / 8; ++g)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (8 * g + e < first || 8 * g + e > last) s[4 * g + 2 * half + e] = minus_infinity();
    }
  }
};

template <class T, int kDim, int kTileN, int kConsumers, int kStages, bool kSoftcap>
__global__ void __launch_bounds__(128 * (kConsumers + 1), 1)
    prefill_wgmma_kernel(const __grid_constant__ TensorMap map_q,
                         const __grid_constant__ TensorMap map_k,
                         const __grid_constant__ TensorMap map_v, const AttentionArgs args) {
  using Prefill = PrefillWgmma<T, kDim, kTileN, kConsumers, kStages, kSoftcap>;
  using Tile = typename Prefill::Tile;
  constexpr int kTileM = Prefill::kTileM;
  const unsigned queries = (shared_address(dynamic_shared()) + 1023) & ~1023u;
  const unsigned keys = queries + Prefill::kBuffersQ * Prefill::kBytesQ;
  const unsigned values = keys + kStages * Prefill::kBytesKv;
  const unsigned q_full = values + kStages * Prefill::kBytesKv;  // barriers, eight bytes each
  const unsigned q_empty = q_full + 8 * Prefill::kBuffersQ;
  const unsigned k_full = q_empty + 8 * Prefill::kBuffersQ;
  const unsigned k_empty = k_full + 8 * kStages;
  const unsigned v_full = k_empty + 8 * kStages;
  const unsigned v_empty = v_full + 8 * kStages;
  const int warpgroup = static_cast<int>(threadIdx.x) >> 7;
  const int num_units = args.batch * args.heads * ((args.q_len + kTileM - 1) / kTileM);

  if (threadIdx.x == 0) {
    prefetch_map(map_q);
    prefetch_map(map_k);
    prefetch_map(map_v);
    for (int s = 0; s < Prefill::kBuffersQ; ++s) {
      barrier_init(q_full + 8 * s, 1);
      barrier_init(q_empty + 8 * s, kConsumers);
    }
    for (int s = 0; s < kStages; ++s) {
      barrier_init(k_full + 8 * s, 1);
      barrier_init(k_empty + 8 * s, kConsumers);
      barrier_init(v_full + 8 * s, 1);
      barrier_init(v_empty + 8 * s, kConsumers);
    }
    barrier_init_fence();
  }
  __syncthreads();
  wait_for_predecessor();

  unsigned step = 0;       // tiles of keys so far: their stages alternate
  unsigned num_tiles = 0;  // so far; queries alternate between kBuffersQ buffers
  Tile tile;
  if (warpgroup == 0) {
    register_dealloc<kConsumers == 2 ? 40 : 32>();
    if (threadIdx.x != 0) return;
    for (int round = 0;; ++round) {
      if (round * static_cast<int>(gridDim.x) >= num_units) break;
      const int unit = Prefill::unit_of(round);
      if (unit >= num_units || !Prefill::tile_at(args, unit, tile)) continue;
      if (tile.first >= tile.last) continue;
      const int packed_q = args.q_starts != nullptr ? 0 : tile.sequence.batch;
      const int kv_head = tile.head / args.group;
      const unsigned buffer = num_tiles % Prefill::kBuffersQ;
      barrier_wait(q_empty + 8 * buffer, ~(num_tiles / Prefill::kBuffersQ) & 1);
      barrier_expect(q_full + 8 * buffer, Prefill::kBytesQ);
#pragma unroll
      for (int panel = 0; panel < Prefill::kPanels; ++panel)
        load_box(queries + buffer * Prefill::kBytesQ + panel * kTileM * 128, map_q,
                 q_full + 8 * buffer, panel * 64, tile.sequence.q_start + tile.row, tile.head,
                 packed_q);
      ++num_tiles;
      for (int n = tile.last - 1; n >= tile.first; --n) {
        const unsigned stage = step % kStages;
        const unsigned phase = step / kStages & 1;
        barrier_wait(k_empty + 8 * stage, phase ^ 1);
        Prefill::load_tile(keys + stage * Prefill::kBytesKv, map_k, k_full + 8 * stage, args,
                           tile.sequence, kv_head, n);
        barrier_wait(v_empty + 8 * stage, phase ^ 1);
        Prefill::load_tile(values + stage * Prefill::kBytesKv, map_v, v_full + 8 * stage, args,
                           tile.sequence, kv_head, n);
        ++step;
      }
    }
    return;
  }

  register_alloc<kConsumers == 2 ? 232 : 160>();
  const int consumer = warpgroup - 1;
  const int thread = static_cast<int>(threadIdx.x) & 127;
  const int my_turn = 1 + consumer;
  const int next_turn = 1 + (consumer + 1) % kConsumers;
  if (consumer == kConsumers - 1) named_arrive(next_turn, 256);
  for (int round = 0;; ++round) {
    if (round * static_cast<int>(gridDim.x) >= num_units) break;
    const int unit = Prefill::unit_of(round);
    if (unit >= num_units || !Prefill::tile_at(args, unit, tile)) continue;
    float o[kDim / 2];
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) o[i] = 0.0f;
    RowSums<kSoftcap> sums(args.scale, args.softcap);
    if (tile.first < tile.last) {
      float s[kTileN / 2];
      unsigned p[kTileN / 4];
      float factor[2];
      const unsigned buffer = num_tiles % Prefill::kBuffersQ;
      const unsigned q = queries + buffer * Prefill::kBytesQ + consumer * 64 * 128;
      const auto stage_of = [](unsigned i) { return i % kStages; };
      const auto phase_of = [](unsigned i) { return i / kStages & 1; };

      int n = tile.last - 1;
      barrier_wait(q_full + 8 * buffer, num_tiles / Prefill::kBuffersQ & 1);
      ++num_tiles;
      barrier_wait(k_full + 8 * stage_of(step), phase_of(step));
      named_sync(my_turn, 256);
      wgmma_touch(s);
      wgmma_fence();
      Prefill::multiply_qk(s, q, keys + stage_of(step) * Prefill::kBytesKv);
      wgmma_commit();
      named_arrive(next_turn, 256);
      wgmma_wait<0>();
      wgmma_touch(s);
      if (thread == 0) barrier_arrive(k_empty + 8 * stage_of(step));
      Prefill::mask_scores(s, args, tile, n);
      sums.add(s, factor);
      pack_pairs<T>(s, p);
      if ((n + 1) * kTileN > tile.sequence.length) {
        barrier_wait(v_full + 8 * stage_of(step), phase_of(step));
        Prefill::clear_values(values + stage_of(step) * Prefill::kBytesKv,
                              tile.sequence.length - n * kTileN);
        shared_to_copies_fence();
        named_sync(8 + consumer, 128);
      }
      ++step;

      for (--n; n >= tile.first; --n, ++step) {
        barrier_wait(k_full + 8 * stage_of(step), phase_of(step));
        barrier_wait(v_full + 8 * stage_of(step - 1), phase_of(step - 1));
        named_sync(my_turn, 256);
        wgmma_touch(s);
        wgmma_touch(o);
        wgmma_fence();
        Prefill::multiply_qk(s, q, keys + stage_of(step) * Prefill::kBytesKv);
        wgmma_commit();
        Prefill::multiply_pv(o, p, values + stage_of(step - 1) * Prefill::kBytesKv);
        wgmma_commit();
        named_arrive(next_turn, 256);
        wgmma_wait<1>();
        wgmma_touch(s);
        if (thread == 0) barrier_arrive(k_empty + 8 * stage_of(step));
        Prefill::mask_scores(s, args, tile, n);
        sums.add(s, factor);
        wgmma_wait<0>();
        wgmma_touch(o);
        if (thread == 0) barrier_arrive(v_empty + 8 * stage_of(step - 1));
#pragma unroll
        for (int i = 0; i < kDim / 2; ++i) o[i] *= factor[i >> 1 & 1];
        pack_pairs<T>(s, p);
      }

      if (thread == 0) barrier_arrive(q_empty + 8 * buffer);
      barrier_wait(v_full + 8 * stage_of(step - 1), phase_of(step - 1));
      wgmma_touch(o);
      wgmma_fence();
      Prefill::multiply_pv(o, p, values + stage_of(step - 1) * Prefill::kBytesKv);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_touch(o);
      if (thread == 0) barrier_arrive(v_empty + 8 * stage_of(step - 1));
    }
    // Where registers are few, found again rather than kept through the loop.
    Tile again = tile;
    if constexpr (kConsumers == 3 || kDim > 128)
      Prefill::tile_at(args, Prefill::opaque(unit), again);
    sums.finish(args.sinks != nullptr ? args.sinks + again.head : nullptr, args.v_scale);
    T* const out = static_cast<T*>(args.out) + again.sequence.result(args, 0, again.head);
    store_rows<T, kDim>(o, sums.inverse, out, args.out_at.row, again.row + Prefill::own_row(),
                        again.sequence.q_len);
  }
}

}  // namespace gpk
