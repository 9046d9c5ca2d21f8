// Both operands in one block format, mxfp8, mxfp4 or nvfp4: what SM120 multiplies as it is.
#pragma once

#include "ops/matmul/desc.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::ops::gemm {

// The layout that a and b both have; nullopt: another.
std::optional<PackedLayout> scaled_layout(const MatmulDesc& desc);
inline bool both_scaled(const MatmulDesc& desc) { return scaled_layout(desc).has_value(); }

// transpose() of a matrix, of 4-bit elements too.
Array transposed_view(const Array& matrix);

// call.a, call.quant_a from rows that quantize_rows() made.
void set_scaled_rows(GemmCall& call, const PackedWeight& rows);

// a's rows and b's columns as packed rows, with their tensor scales.
PackedWeight scaled_rows(const Array& rows, const Quantization& quant, const PackedLayout& layout);

// Float32 tensor scales as factors of the epilogue: of rows of a, of all of b.
void set_epilogue_scales(GemmCall& call, const GemmCall& scaled);

// The same numbers as dense operands of `dtype`, which bfloat16 holds exactly; tensor scales are
// factors of the epilogue.
GemmCall scaled_as_dense(const GemmCall& call, DType dtype, const char* op);

}  // namespace gpk::ops::gemm
