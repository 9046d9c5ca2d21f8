// Shared memory of a chain's kernel, and what is kept there of the rows' tables.
#pragma once

#include "args/attention.h"
#include "args/chain.h"
#include "args/kv_cache.h"
#include "common/cp_async.cuh"

namespace gpk {

using namespace kernels;

struct ChainShared {
  unsigned char* stages;
  unsigned char* rows;
  float* sums;
  ChainPhase* phases;  // two of those that compute, one of the loader
  int* tables;
  unsigned char* barriers;

  __device__ __forceinline__ ChainShared(const ChainArgs& args, unsigned char* first)
      : stages(first),
        rows(first + args.stages * args.stage_bytes),
        sums(reinterpret_cast<float*>(rows + args.row_bytes)),
        phases(reinterpret_cast<ChainPhase*>(sums + 2 * kChainWarps * kChainRows * kChainSumPitch)),
        tables(reinterpret_cast<int*>(phases + 3)),
        barriers(reinterpret_cast<unsigned char*>(tables) + args.table_bytes) {}
};

// A load from the L2 costs as much as a phase computes: lengths, slots, positions and block tables
// are read once.
class TableCopy {
 public:
  __device__ __forceinline__ TableCopy(int* to, const ChainTables& from)
      : to_(to), rows_(from.lengths != nullptr ? from.rows : 0), blocks_row_(from.blocks_row) {}

  // For the warps that compute, before they synchronise.
  __device__ __forceinline__ void fetch(const ChainTables& from) const {
    const int threads = 32 * kChainWarps;
    for (int i = static_cast<int>(threadIdx.x); i < rows_; i += threads) {
      to_[i] = from.lengths[i];
      to_[rows_ + i] = from.slots[i];
      to_[2 * rows_ + i] = from.positions[i];
    }
    for (int i = static_cast<int>(threadIdx.x); i < rows_ * blocks_row_; i += threads)
      to_[3 * rows_ + i] = from.blocks[i];
  }

  // By one thread; the others synchronise with it.
  __device__ __forceinline__ void patch(AttentionArgs& args, unsigned flags) const {
    if (threadIdx.x != 0 || (flags & kChainAttentionTables) == 0) return;
    args.lengths = to_;
    args.blocks = to_ + 3 * rows_;
  }
  __device__ __forceinline__ void patch(KvWriteArgs& args, unsigned flags) const {
    if (threadIdx.x != 0 || (flags & kChainWriteTables) == 0) return;
    args.slots = to_ + rows_;
    args.positions = to_ + 2 * rows_;
  }

 private:
  int* to_;
  int rows_, blocks_row_;
};

}  // namespace gpk
