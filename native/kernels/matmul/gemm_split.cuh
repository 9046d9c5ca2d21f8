// gemm_mma.cuh for float32 as two TF32 numbers (common/mma_split.cuh): tiles of 64 x 64 x 32, which
// is what registers allow with twice the fragments.
#pragma once

#include "common/mma_split.cuh"
#include "matmul/gemm_mma.cuh"

namespace gpk {

// SM120 would spill for one block more per multiprocessor; SM90 spills where it is told not to.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define GPK_SPLIT_BOUNDS __launch_bounds__(128, 1)
#else
#define GPK_SPLIT_BOUNDS __launch_bounds__(128)
#endif

template <bool kAKMajor, bool kBKMajor, int kAlign>
__global__ void GPK_SPLIT_BOUNDS gemm_split_kernel(const __grid_constant__ MatmulArgs args,
                                                   const __grid_constant__ EpilogueArgs epilogue,
                                                   const __grid_constant__ TileGrid grid) {
  gemm_mma_tile<tf32x3, tf32x3, float, 64, 64, 32, 32, 32, 3, kAKMajor, kBKMajor, kAlign, kAlign>(
      args, epilogue, grid);
}

#undef GPK_SPLIT_BOUNDS

}  // namespace gpk
