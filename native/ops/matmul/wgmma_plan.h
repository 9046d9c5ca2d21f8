// Tiles, shared memory and proposals of engine wgmma. Pure.
#pragma once

#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

// Bits of MatmulPlan::kernel.
inline constexpr std::uint8_t kWgmmaSplit = 1;  // split-K over the blocks of a cluster
inline constexpr std::uint8_t kWgmmaPackA = 2;  // an operand is copied first: unaligned, or not
inline constexpr std::uint8_t kWgmmaPackB = 4;  // K-major in a type that must be

// How accumulators are stored; the values of kernels/matmul/wgmma_store.cuh.
enum class WgmmaStoreKind : std::uint8_t {
  kRows = kernels::kStoreRows,
  kColumns = kernels::kStoreColumns,
  kStrided = kernels::kStoreStrided,
};

// Rows of 64 a consumer multiplies.
constexpr int wgmma_reps(int tile_m) { return tile_m == 256 ? 2 : 1; }
constexpr int wgmma_threads(int tile_m) { return 128 * (tile_m / 64 / wgmma_reps(tile_m) + 1); }
// Elements of k in one step: 128 bytes.
int wgmma_tile_k(DType operand);

// What the kernel itself writes for `desc` (transposed() already where the plan says so): C, or
// with split-K the partial sums that the finish pass adds up.
MatmulDesc wgmma_output(const MatmulDesc& desc, const MatmulPlan& plan);

// `desc` is wgmma_output().
WgmmaStoreKind wgmma_store(const MatmulDesc& desc);

// Every plan there is for `desc`; propose_wgmma() keeps the most promising ones.
void all_wgmma_plans(const MatmulDesc& desc, const GemmMachine& machine,
                     std::vector<MatmulPlan>& plans);

// Columns of C in one TMA store, and all of a block's dynamic shared memory.
int wgmma_chunk(const MatmulPlan& plan, WgmmaStoreKind store, DType c);
std::size_t wgmma_shared_bytes(const MatmulPlan& plan, WgmmaStoreKind store, DType c);

}  // namespace gpk::ops::gemm
