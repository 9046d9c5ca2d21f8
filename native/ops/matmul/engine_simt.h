// The engine of float32 multiply-adds: float32 products that stay float32. Kernels:
// kernels/matmul/gemm_simt.cuh, made by NVRTC.
#pragma once

#include "ops/matmul/gemm_tiles.h"

namespace gpk::ops {

enum class SimtKernel : std::uint8_t {
  k128x256,
  k64x128,
  k64x64,
};

// The tile of a kernel, with shares as measured on an H200.
GemmTile simt_tile(SimtKernel kernel);

}  // namespace gpk::ops
