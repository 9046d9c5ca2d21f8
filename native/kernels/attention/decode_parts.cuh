// What decode_mma.cuh is made of: the work of a block, copies of a warp, sums of parts.
#pragma once

#include "args/attention.h"
#include "attention/softmax.cuh"
#include "common/cp_async.cuh"

namespace gpk {

using namespace kernels;

inline constexpr int kDecodeRows = 16;
inline constexpr int kDecodeKeys = 16;  // of a warp's step

// Four columns of one row, and the row's maximum and sum, merged from parts in their order. A part
// is a row in memory: the result, then its maximum, then its sum.
struct DecodeSum {
  float value[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  float largest = minus_infinity();
  float total = 0.0f;

  // kBatch loads in flight; parts are `stride` floats apart.
  template <int kValueDim, int kBatch>
  __device__ __forceinline__ void add(const float* first, int count, int stride, int column) {
    for (int i = 0; i < count; i += kBatch) {
      Vec<float, 4> x[kBatch];
      Vec<float, 2> sums[kBatch];
      float top = largest;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        sums[j] = {{minus_infinity(), 0.0f}};
        x[j] = {{0.0f, 0.0f, 0.0f, 0.0f}};
        if (i + j < count) {
          const float* const part = first + static_cast<long long>(i + j) * stride;
          sums[j] = load_vec<float, 2>(part + kValueDim);
          x[j] = load_vec<float, 4>(part + column);
        }
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) top = fmaxf(top, sums[j].v[0]);
      const float base = top == minus_infinity() ? 0.0f : top;
      const float before = exp2_fast(largest - base);
      largest = top;
      total *= before;
#pragma unroll
      for (int c = 0; c < 4; ++c) value[c] *= before;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const float factor = exp2_fast(sums[j].v[0] - base);
        total = fmaf(sums[j].v[1], factor, total);
#pragma unroll
        for (int c = 0; c < 4; ++c) value[c] = fmaf(x[j].v[c], factor, value[c]);
      }
    }
  }
};

// What a block does. Sizes that divide are powers of two: integer division would cost more than the
// first loads.
struct DecodeUnit {
  int batch;
  int tile;  // of all sequences
  int kv_head;
  int first_row, rows;
  int first_split, num_splits;  // of the tile
  int num_blocks;               // that share it
  int from, to;                 // keys of this block
  int length, shift;

  // The query of a row.
  static __device__ __forceinline__ int query_of(const AttentionArgs& args, int row) {
    return args.q_len == 1 ? 0 : row / args.group;
  }

  // The `block`-th group of splits of tile y (of `tiles`) of sequence z. False: no keys.
  __device__ __forceinline__ bool init(const AttentionArgs& args, int block, int y, int z,
                                       int tiles) {
    const int num_rows = args.group * args.q_len;
    batch = z;
    tile = batch * tiles + y;
    kv_head = args.row_tiles == 1 ? y : y / args.row_tiles;
    first_row = (y - kv_head * args.row_tiles) * kDecodeRows;
    rows = min(kDecodeRows, num_rows - first_row);
    length = args.lengths != nullptr ? min(args.lengths[batch], args.kv_len) : args.kv_len;
    shift = length - args.q_len;
    // Keys that any of the rows sees.
    const int begin = max(0, query_of(args, first_row) + shift - args.left);
    const int end = min(length, query_of(args, first_row + rows - 1) + shift + args.right + 1);
    first_split = begin >> args.split_log2;
    num_splits = max(1, ((end + (1 << args.split_log2) - 1) >> args.split_log2) - first_split);
    const int first_block = first_split >> args.splits_log2;
    num_blocks = ((first_split + num_splits - 1) >> args.splits_log2) - first_block + 1;
    const int block_log2 = args.split_log2 + args.splits_log2;
    from = max(first_split << args.split_log2, block << block_log2);
    to = min(end, (block + 1) << block_log2);
    return block >= first_block && block < first_block + num_blocks;
  }
};

// A warp's copies of rows of kBytes to shared memory, 16 bytes at a time.
template <int kBytes>
struct RowCopies {
  static constexpr int kPitch = kBytes + 16;  // no bank conflicts
  static constexpr int kPieces = kBytes / 16;
  static constexpr int kCopies = (kDecodeKeys * kPieces + 31) / 32;
  static constexpr bool kWhole = 32 % kPieces == 0;  // a copy of the warp has whole rows

  const char* base;  // of the head
  long long stride;  // bytes from row to row
  int lane;

  // Rows from `row` on, `count` of them; the rest becomes zero.
  __device__ __forceinline__ void run(unsigned to, long long row, int count) const {
    const char* const from = base + row * stride;
    if (kWhole && count >= kDecodeKeys) {
      constexpr int kRows = kWhole ? 32 / kPieces : 1;
      const char* at = from + lane / kPieces * stride + lane % kPieces * 16;
      const unsigned place = to + lane / kPieces * kPitch + lane % kPieces * 16;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        cp_async<16>(place + i * kRows * kPitch, at);
        at += kRows * stride;
      }
      return;
    }
#pragma unroll 1
    for (int i = lane; i < kDecodeKeys * kPieces; i += 32) {
      const int r = i / kPieces;
      const int piece = i - r * kPieces;
      const bool real = r < count;
      cp_async<16>(to + r * kPitch + piece * 16, from + (real ? r * stride : 0) + piece * 16,
                   real ? 16 : 0);
    }
  }
};

}  // namespace gpk
