// The engine of float32 multiply-adds, without tensor cores. Kernels:
// kernels/matmul/gemm_simt.cuh, compiled by NVRTC.
#pragma once

#include "ops/matmul/gemm_tiles.h"

namespace gpk::ops::gemm {

enum class SimtKernel : std::uint8_t {
  k128x256,
  k64x128,
  k64x64,
};

// The tile of a kernel, with shares as measured on an H200.
GemmTile simt_tile(SimtKernel kernel);

}  // namespace gpk::ops::gemm
