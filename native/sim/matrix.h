// Handlers of matrix operations: ldmatrix, stmatrix, mma.sync, wgmma.
#pragma once

#include "sim/program.h"
#include "sim/types.h"

namespace gpk::sim {

// Run inside warp_sync: args[0] is the member mask, args[1..count] the registers. a: addresses,
// mode: transposed.
void load_matrices(const Op& op, Warp& warp, std::uint32_t mask);
void store_matrices(const Op& op, Warp& warp, std::uint32_t mask);

// mma.sp: in kSparseOrdered both indices of a group of four ascend, else they differ.
enum MmaSparsity : std::int32_t { kDense, kSparse, kSparseOrdered };

// args after the member mask: MmaShape as below, then the cells of d, a, b, c, of metadata.
struct MmaShape {
  std::int32_t m, n, k;
  std::int32_t d_type, a_type, b_type;  // Type
  std::int32_t saturate;
  std::int32_t bits;  // of an element of a and b; 4: as s8 or u8
  std::int32_t d_count, a_count, b_count;
  MmaSparsity sparse;
  std::int32_t selector;  // of the lanes that have the metadata
};
void multiply_accumulate(const Op& op, Warp& warp, std::uint32_t mask);

// The 16 rows of a of mma.sp: `packed` [16, k / 2] to `dense` [16, k]. A word of metadata is for 16
// columns of row g = lane / 4 (low half) and of row g + 8: two bits for each of packed's elements.
// Of a quad, lane `selector` has it (k = 16), or lanes 2 * selector and, for columns 16 to 31,
// 2 * selector + 1.
void expand_sparse(const MmaShape& shape, const std::uint32_t* metadata, const float* packed,
                   float* dense);

// mma with block scales. args after the member mask: ScaledMmaShape, then the cells of d, a, b, c
// (as of mma) and of both scales. A register of scales has num_scales in order of k, from byte
// select.byte on: of row m of a in lane 4 (m % 8) + 2 thread + m / 8, of column n of b in lane
// 4 n + thread.
enum MmaElement : std::int32_t { kNoElement, kElementE4m3, kElementE5m2, kElementE2m1 };
enum MmaScale : std::int32_t { kNoScale, kScaleUe8m0, kScaleUe4m3 };
struct ScaleSelector {
  std::int32_t byte, thread;
};
struct ScaledMmaShape {
  MmaElement a, b;
  std::int32_t bits;
  MmaScale scale_format;
  std::int32_t num_scales;
  ScaleSelector select_a, select_b;
};
void multiply_scaled(const Op& op, Warp& warp, std::uint32_t mask);

// wgmma.mma_async: each warp computes its 16 of the 64 rows at once. args after the member mask:
// WgmmaShape, then the cells of d, then of a (one descriptor or its registers). b: descriptor of
// b; c: predicate of scale-d (flags 1: negated).
struct WgmmaShape {
  std::int32_t n, k;
  std::int32_t d_type, a_type, b_type;
  std::int32_t d_count, a_count;  // a_count 0: from shared memory
  std::int32_t negate_a, negate_b, transpose_a, transpose_b, saturate;
};
void warpgroup_multiply(const Op& op, Warp& warp, std::uint32_t mask);

}  // namespace gpk::sim
