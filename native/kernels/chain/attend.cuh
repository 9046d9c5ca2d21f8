// Attention of a chain: decode_mma. Of one row, a unit makes its queries itself, and the one that
// has the newest key writes it to the cache first, so that no barrier stands between the two.
#pragma once

#include "attention/decode_mma.cuh"
#include "chain/shared.cuh"
#include "kv_cache/write.cuh"

namespace gpk {

inline constexpr int kAttendWarps = 4;
inline constexpr int kAttendBarrier = 1;  // of decode_attention, too

// Head `row` of all tokens, by a group of threads.
template <class T, class Kv>
__device__ __forceinline__ void write_head(const KvWriteArgs& args, long long row, int lane) {
  HeadWriter<T, Kv, 8> head(args, row);
  if (args.q_weight != nullptr || args.k_weight != nullptr) head.normalise(lane);
  head.write(lane);
}

template <class T, class Kv, int kDim>
struct ChainAttention {
  AttentionArgs& args;
  KvWriteArgs& write;
  unsigned char* shared;
  unsigned char* shared_end;  // queries are in front of it

  __device__ __forceinline__ void run(const ChainPhase& phase, int unit, bool writes) const {
    const int tile = unit / phase.blocks;
    const int sequence = tile / phase.tiles;
    DecodeUnit work;
    if (!work.init(args, unit - tile * phase.blocks, tile - sequence * phase.tiles, sequence,
                   phase.tiles))
      return;
    if (writes) write_heads(work);
    decode_attention<T, Kv, kDim, kDim, kAttendWarps, 2, false>(args, work, phase.blocks, shared);
    named_sync(kAttendBarrier, 32 * kAttendWarps);  // shared memory is free again
  }

  // The heads of one token: the queries of a key head to shared memory; key and value to the cache
  // by the unit that attends to them.
  __device__ __forceinline__ void write_heads(const DecodeUnit& work) const {
    const int first_head = work.kv_head * args.group;
    if (threadIdx.x == 0) {
      T* const queries =
          reinterpret_cast<T*>(shared_end - (args.group * kDim * sizeof(T) + 127) / 128 * 128) -
          first_head * kDim;
      write.q_out = queries;
      write.q_out_head = kDim;
      args.q = queries;
      args.q_at.head = kDim;
    }
    named_sync(kAttendBarrier, 32 * kAttendWarps);
    const bool has_newest = work.from <= work.shift && work.shift < work.to;
    const int count = args.group + (has_newest ? 2 : 0);
    const int groups = 32 * kAttendWarps / write.group;
    const int lane = static_cast<int>(threadIdx.x) & (write.group - 1);
    // Whole warps: groups past the last head have nothing to do.
    for (int first = 0; first < count; first += groups) {
      const int i = first + static_cast<int>(threadIdx.x) / write.group;
      const int of_kv = write.q_heads + (i - args.group) * write.kv_heads + work.kv_head;
      const long long row = i < args.group ? first_head + i : of_kv;
      write_head<T, Kv>(write, i < count ? row : write.num_rows, lane);
    }
    named_sync(kAttendBarrier, 32 * kAttendWarps);
  }
};

}  // namespace gpk
