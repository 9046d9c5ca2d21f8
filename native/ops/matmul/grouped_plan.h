// Tiles and proposals of engine grouped. Pure.
#pragma once

#include "ops/matmul/engine_mma.h"

namespace gpk::ops::gemm {

// MatmulPlan::kernel.
enum class GroupedKernel : std::uint8_t { kSimt, kMma, kWgmma };

// What selects the code of a tensor core kernel.
struct GroupedVariant {
  GroupedKernel kernel;
  DType dtype;
  std::int32_t tile_m, tile_n, stages;
  bool b_n_major;
};
GroupedVariant grouped_variant(const MatmulDesc& desc, const MatmulPlan& plan);

// The mma kernel of a plan's tile.
MmaKernel grouped_mma_kernel(std::int32_t tile_m);

// A block's dynamic shared memory, the table of `groups` included.
std::size_t grouped_shared_bytes(const MatmulPlan& plan, DType dtype, std::int64_t groups);

// Every plan there is; propose_grouped() keeps those whose kernel can be loaded.
void all_grouped_plans(const MatmulDesc& desc, const GemmMachine& machine,
                       std::vector<MatmulPlan>& plans);

}  // namespace gpk::ops::gemm
