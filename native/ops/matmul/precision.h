// Whether float32 operands may be rounded to TF32.
#pragma once

#include <optional>

namespace gpk::ops {

enum class MatmulPrecision { kFloat32, kTf32 };

// The precision of float32 GEMMs where a call does not say. At first: PYGPUKIT_ALLOW_TF32 (kTf32),
// else kFloat32. For all threads.
MatmulPrecision matmul_precision();
void set_matmul_precision(MatmulPrecision precision);

namespace gemm {

// The answer for one call. PYGPUKIT_NO_TF32 wins over everything.
bool tf32_allowed(std::optional<bool> use_tf32);

}  // namespace gemm

}  // namespace gpk::ops
