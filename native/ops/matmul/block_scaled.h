// FP8 operands with a float32 scale per 128 of k of a row, or per block of 128 x 128.
#pragma once

#include "ops/matmul/desc.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::ops::gemm {

bool is_block_scaled(const plan::OperandFormat& format);

// `values` [rows, k] as packed rows: no copy where they are contiguous and k is a multiple of 16.
// Scales are [rows, blocks], or [rows / 128, blocks].
PackedWeight block_scaled_rows(const Array& values, const Quantization& quant, const char* op);

// A call with block scales on both operands as one of float32: operands as numbers, a temporary c
// of float32 where call.c has another dtype.
GemmCall block_scaled_as_float(const GemmCall& call, const char* op);

}  // namespace gpk::ops::gemm
