// Tiles, shared memory and proposals of engine wgmma. Pure.
#pragma once

#include "ops/matmul/plan.h"

namespace gpk::ops {

// Bits of MatmulPlan::kernel.
inline constexpr std::uint8_t kWgmmaSplit = 1;  // the cluster's blocks have a part of k each
inline constexpr std::uint8_t kWgmmaPackA = 2;  // an operand is copied first: unaligned, or lies
inline constexpr std::uint8_t kWgmmaPackB = 4;  // across k in a type that must lie along it

// How results leave; the values of kernels/matmul/wgmma_store.cuh.
enum class WgmmaStoreKind : std::uint8_t { kRows, kColumns, kStrided };

// The operands' dtypes have such kernels, and C's can be stored.
bool wgmma_has(DType a, DType b, DType c, bool tf32);

// Rows of 64 a consumer multiplies.
constexpr int wgmma_reps(int tile_m) { return tile_m == 256 ? 2 : 1; }
constexpr int wgmma_threads(int tile_m) { return 128 * (tile_m / 64 / wgmma_reps(tile_m) + 1); }
// Elements of k in one step: 128 bytes.
int wgmma_tile_k(DType operand);

// What the kernel makes of `desc` (transposed() already where the plan says so): sums of parts of
// k, which a last pass adds up, where the plan has several.
MatmulDesc wgmma_made(const MatmulDesc& desc, const MatmulPlan& plan);

// Of what is made.
WgmmaStoreKind wgmma_store(const MatmulDesc& desc);

// Every plan there is for `desc`; propose_wgmma() keeps the most promising ones.
void all_wgmma_plans(const MatmulDesc& desc, const Machine& machine,
                     std::vector<MatmulPlan>& plans);

// Columns of C in one copy on the way out, and all of a block's dynamic shared memory.
int wgmma_chunk(const MatmulPlan& plan, WgmmaStoreKind store, DType c);
std::size_t wgmma_shared_bytes(const MatmulPlan& plan, WgmmaStoreKind store, DType c);

}  // namespace gpk::ops
