// Weights to packed ones and back.
#pragma once

#include "ops/quantize/packed_weight.h"

namespace gpk::ops {

// w [n, k] or [experts, n, k] of float16, bfloat16 or float32, finite. Rounded to nearest even, by
// the largest magnitude of a group. Throws InvalidArgument.
PackedWeight quantize(const Array& w, const PackedLayout& layout, const char* op = "quantize");

// The values as numbers in `dtype` (nullopt: that of the weights before), each rounded once.
Array dequantize(const PackedWeight& weight, std::optional<DType> dtype = std::nullopt,
                 const std::optional<Array>& out = std::nullopt, const char* op = "dequantize");

// Of a stack on a device, whose matrices without rows, by sizes (int32, contiguous, one per
// matrix), are undefined: they are not read.
Array dequantize_used(const PackedWeight& stack, DType dtype, const Array& sizes, const char* op);

}  // namespace gpk::ops
