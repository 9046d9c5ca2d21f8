// Activations to the block formats of weights, row by row.
#pragma once

#include <vector>

#include "jit/builtin.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::ops {

// After those of sparse.h.
inline constexpr std::uint8_t kQuantizeRowsKernel = 12;

// x [m, k] of float16, bfloat16 or float32 as mxfp8, mxfp4 or nvfp4, in one kernel. A row does not
// depend on others: tensor_scale of nvfp4 is [m], one for each.
PackedWeight quantize_rows(const Array& x, const PackedLayout& layout, const char* op);

void enumerate_quantize_rows(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops
