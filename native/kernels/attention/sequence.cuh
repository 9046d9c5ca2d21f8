// Where the queries, keys and values of one sequence are, and what a query sees.
#pragma once

#include "args/attention.h"
#include "attention/softmax.cuh"

namespace gpk {

using namespace kernels;

struct Sequence {
  int batch;
  int q_start, k_start;  // rows of packed sequences before it
  int q_len, length;     // queries, keys
  int shift;             // query i is at position i + shift

  __device__ __forceinline__ Sequence() = default;
  __device__ __forceinline__ Sequence(const AttentionArgs& args, int index)
      : batch(index), q_start(0), k_start(0), q_len(args.q_len), length(args.kv_len) {
    if (args.q_starts != nullptr) {
      q_start = args.q_starts[batch];
      q_len = args.q_starts[batch + 1] - q_start;
    }
    if (args.k_starts != nullptr) {
      k_start = args.k_starts[batch];
      length = args.k_starts[batch + 1] - k_start;
    }
    if (args.lengths != nullptr) length = max(0, min(length, args.lengths[batch]));
    shift = length - q_len;
  }

  // Keys that queries [first, last] see: [from, to).
  __device__ __forceinline__ int from(const AttentionArgs& args, int first) const {
    return max(0, first + shift - args.left);
  }
  __device__ __forceinline__ int to(const AttentionArgs& args, int last) const {
    return max(0, min(length, last + shift + args.right + 1));
  }

  // Offsets in elements.
  __device__ __forceinline__ long long row_of(const AttentionStrides& at, const int* starts,
                                              int start, int row, int head) const {
    return (starts != nullptr ? 0 : batch * at.batch) +
           static_cast<long long>(start + row) * at.row + head * at.head;
  }
  __device__ __forceinline__ long long query(const AttentionArgs& args, int row, int head) const {
    return row_of(args.q_at, args.q_starts, q_start, row, head);
  }
  __device__ __forceinline__ long long result(const AttentionArgs& args, int row, int head) const {
    return row_of(args.out_at, args.q_starts, q_start, row, head);
  }
  __device__ __forceinline__ long long key(const AttentionArgs& args, const AttentionStrides& at,
                                           int row, int kv_head) const {
    if (args.blocks == nullptr) return row_of(at, args.k_starts, k_start, row, kv_head);
    const int page =
        args.blocks[static_cast<long long>(batch) * args.blocks_row + (row >> args.page_log2)];
    return page * at.batch + (row & ((1 << args.page_log2) - 1)) * at.row + kv_head * at.head;
  }

  // The score of query `row` and key `column` in units of log2(e), from their dot product.
  __device__ __forceinline__ float score(const AttentionArgs& args, float dot, int head, int row,
                                         int column) const {
    const int at = row + shift;
    if (column < at - args.left || column > at + args.right || column >= length)
      return minus_infinity();
    float s = dot * args.scale;
    if (args.softcap != 0.0f) s = capped_score(s, args.softcap);
    const auto place = [&](const AttentionStrides& strides, long long step) {
      return batch * strides.batch + head * strides.head + row * strides.row + column * step;
    };
    if (args.mask != nullptr && !args.mask[place(args.mask_at, args.mask_step)])
      return minus_infinity();
    if (args.bias != nullptr) s += args.bias[place(args.bias_at, args.bias_step)] * kLog2E;
    return s;
  }
};

}  // namespace gpk
