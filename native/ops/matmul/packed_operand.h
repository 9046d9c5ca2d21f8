// Packed weights as the B of a GemmCall, and back.
#pragma once

#include "ops/matmul/desc.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::ops::gemm {

// call.b [k, n] and call.quant_b from a weight of two dimensions.
void set_packed_operand(GemmCall& call, const PackedWeight& weight);

// The weight that set_packed_operand() was given, without its dtype (2:4: with it).
PackedWeight packed_operand(const GemmCall& call);

// The layout of desc.b; nullopt: it is none of packed weights.
std::optional<PackedLayout> packed_layout(const plan::OperandFormat& b);

// Whether the PTX bundle has the layout's kernels of the packed engines, for any number of rows:
// those of common checkpoints.
bool is_bundled(const PackedLayout& layout);

}  // namespace gpk::ops::gemm
