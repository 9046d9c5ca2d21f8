// The fallback: any dtype, any strides, without tensor cores. Kernels:
// kernels/matmul/{direct,tiled}.cuh. Narrow types have kernels of their own where NVRTC is there
// and are widened elsewhere; FP8 operands become float16 (exactly) first.
#pragma once

#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

enum class GeneralKernel : std::uint8_t {
  kDirect,   // a thread per element of C: short k, tiny matrices, thin ones along their long side
  kRows,     // a warp per element of C: K-major GEMV and its like
  kTile64,   // 64 x 64 tiles of C
  kTile128,  // 128 x 64 tiles of C; types that accumulate in four bytes
};

}  // namespace gpk::ops::gemm
