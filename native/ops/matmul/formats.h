// Which formats of operands there are engines for, and the refusal of all others.
#pragma once

#include <vector>

#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

// One B for all rows, operands unpacked, scales (of float accumulators) applied by the epilogue:
// what kernels that read operands as they are can take.
bool is_dense(const MatmulDesc& desc);

// C may have the operands' dtype or the accumulator's; of FP8 float32, float16 or bfloat16.
bool takes_result(const MatmulDesc& desc);

// What tensor cores multiply: float16, bfloat16, TF32, int8 to int32, FP8.
bool takes_tensor_cores(const MatmulDesc& desc);

// The engines whose takes_<engine>() says yes. Pure.
std::vector<MatmulEngine> engines_taking(const MatmulDesc& desc);

// InvalidArgument (kType) where there is none: names the op, the operand, its format, and what
// there is.
void check_formats(const MatmulDesc& desc, const char* op);

}  // namespace gpk::ops::gemm
