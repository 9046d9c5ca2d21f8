// What the engines mma and simt share: the cost model, the choice of split-K, the launch.
#pragma once

#include <span>

#include "core/module.h"
#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

// A tile and what it was measured to reach.
struct GemmTile {
  std::int32_t m, n, k;  // k in elements
  std::int32_t stages;
  std::int32_t threads;
  std::int32_t shared_bytes;
  std::int32_t max_blocks;  // per multiprocessor, by registers
  double share;             // of the engine's rate, with that many blocks
  double alone;             // of this again, where a multiprocessor has one block
  // Where neither is part of `share`:
  double fill_us = 0.0;             // the first stages, beyond what other kernels take
  double store_elems_per_us = 0.0;  // of C, by one multiprocessor
};

// Desc as the kernels see it: C^T is computed where C is column-major.
struct OrientedDesc {
  bool transpose = false;
  MatmulDesc desc;
};
OrientedDesc orient(const MatmulDesc& desc);

// Whether both operands have a unit stride, and sizes the kernels can count.
bool tiles_fit(const MatmulDesc& desc);

// Accumulators can be stored in C as they are: their type, contiguous, no epilogue.
bool takes_sums(const MatmulDesc& oriented);

// How C gets its values from a kernel that can store `own` as C itself.
bool tiles_need_finish(const MatmulDesc& oriented, DType own, std::int64_t splits);

// The time of `oriented` by `tile` and split-K of `splits`, at `flops_per_us` of the whole machine:
//   launch + max(rounds of tiles, bytes) + finish pass,
//   rounds: tiles of the busiest multiprocessor x time of a tile, by how many share it, and what
//           filling and emptying the pipeline takes for each resident set of blocks; storing them;
//   bytes:  operands and C once from memory, tiles through the L2.
double tiles_us(const MatmulDesc& oriented, const GemmMachine& machine, const GemmTile& tile,
                double flops_per_us, DType own, std::int64_t splits);

// Appends the best plan with `tile` over all sensible split-K; fixed_splits: 0, or the only one.
void propose_tile(const OrientedDesc& oriented, const GemmMachine& machine, MatmulEngine engine,
                  std::uint8_t kernel, const GemmTile& tile, double flops_per_us, DType own,
                  std::vector<MatmulPlan>& plans, std::int64_t fixed_splits = 0);

// Launches `kernel`, and the finish pass where one is needed. `extra`: the kernel's fourth
// argument, where it has one.
void launch_tiles(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                  const Kernel& kernel, const GemmTile& tile, DType own, const char* op,
                  void* extra = nullptr);

}  // namespace gpk::ops::gemm
