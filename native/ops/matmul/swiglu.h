// The pass after the GEMM of a SwiGLU pair: silu(gate) * up.
#pragma once

#include <optional>
#include <vector>

#include "core/array.h"
#include "jit/builtin.h"

namespace gpk::ops::gemm {

// result = silu(g) * u + residual with g and u the first and second half of the last axis of
// `both` + bias. `both` is contiguous, [..., 2 n], of the accumulation type of the result's dtype;
// bias has 2 n elements, the residual the result's shape; result is not empty, any strides, and may
// be the residual.
void run_swiglu(const Array& both, const std::optional<Array>& bias,
                const std::optional<Array>& residual, const Array& result, const char* op);

void enumerate_swiglu(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::gemm
