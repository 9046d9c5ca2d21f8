// The engine for GEMMs with few rows (or few columns): the large operand, w, is read once at the
// speed of memory. bfloat16, float16 and float32 with sums in float32; all epilogues. Kernels:
// kernels/matmul/gemv*.cuh, for w by rows ([n, k]) and by columns ([k, n]). Needs NVRTC. On SM90
// and later they are launched while the kernel before them still runs, and wait for it themselves.
//
// Fields of its plans:
//   transpose    w is a, the few rows are those of b^T: matrix times vector
//   tile_m       rows of x a block has (kM, or 8 * kTilesM)
//   tile_n       rows of w a warp has (gated: of both halves), or (columns) columns a block has
//   tile_k       chunks, blocks of 32 or (ring) elements of k in flight per row
//   group        warps of a block that share rows of w, or (ring) warps of a block
//   stages       of the ring
//   cluster      split-K within a cluster; splits is the same number
//   splits       with cluster 1: split-K reduced by the finish pass
#pragma once

#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

enum class GemvKernel : std::uint8_t {
  kRows,        // w [n, k], lanes walk K
  kColumns,     // w [k, n], lanes along n
  kMmaRows,     // w [n, k] on tensor cores, up to 64 rows of x
  kMmaColumns,  // w [k, n] on tensor cores, up to 16
  kRing,        // w [n, k] through bulk copies (SM90), one row of x
};
inline constexpr int kNumGemvKernels = 5;

// What selects code: one kernel of the enumeration.
struct GemvVariant {
  GemvKernel kernel = GemvKernel::kRows;
  DType dtype = DType::kFloat32;
  int tile_m = 1, tile_n = 1, tile_k = 1, group = 1, stages = 0;
  int align = 16;       // bytes that divide everything about w (and k, by rows; n, by columns)
  bool frozen = false;  // w is fetched before the kernel in front has ended
  bool gated = false, normed = false;  // kMmaRows
  friend bool operator==(const GemvVariant&, const GemvVariant&) = default;
};
GemvVariant gemv_variant(const MatmulDesc& desc, const MatmulPlan& plan);

// Of one launch. Every block normalises all rows by itself, so more cost more than a launch; a gate
// of more does not fit into registers.
inline constexpr std::int64_t kMaxNormRows = 2;
inline constexpr std::int64_t kMaxGatedRows = 32;

// For 1 to kMaxFewRows rows of 16 bits: one plan, whose order of summation depends on n and k
// alone (gated: 2 n). None where the operands do not fit it, for no number of rows, or without
// NVRTC and bundle.
bool takes_few_rows(const MatmulDesc& desc, const GemmMachine& machine);
std::vector<MatmulPlan> propose_few_rows(const MatmulDesc& desc, const GemmMachine& machine);

// Every variant that plans can choose.
std::vector<GemvVariant> gemv_variants();

// Of a launch: blocks and shared memory of the ring.
int gemv_ring_blocks(int tile_n, int sms);
// Of kMmaRows with a norm: x.
std::size_t gemv_norm_bytes(std::int64_t m, std::int64_t k);
std::size_t gemv_ring_bytes(const GemvVariant& variant, std::int64_t n, std::int64_t k, int blocks);

// Whether x must be copied first: rows that do not start where the kernel wants them, or strides.
bool gemv_copies_input(const MatmulDesc& desc, const MatmulPlan& plan);

}  // namespace gpk::ops::gemm
