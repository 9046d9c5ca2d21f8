// The engine of mma.sync (SM80 on): float16, bfloat16, int8 with int32 results, FP8 (SM89 on), and
// float32 where TF32 is allowed. Kernels: kernels/matmul/gemm_mma.cuh, compiled by NVRTC.
#pragma once

#include "ops/matmul/gemm_tiles.h"

namespace gpk::ops::gemm {

enum class MmaKernel : std::uint8_t {
  k128x256,
  k128x128,
  k64x128,
  k64x64,
  kLoose,  // 128 x 128, for operands that are not aligned to 16 bytes
};

// The tile of a kernel for operands of `itemsize` bytes, with shares as measured on an H200.
GemmTile mma_tile(MmaKernel kernel, std::size_t itemsize);

// What one warp of it computes.
struct WarpTile {
  int m, n;
};
WarpTile warp_tile(MmaKernel kernel);

}  // namespace gpk::ops::gemm
