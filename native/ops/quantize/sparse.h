// 2:4 sparsity: two of every four weights along k, kept as they are.
#pragma once

#include <vector>

#include "jit/builtin.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::ops {

// First of the kernels' numbers in Family::quantize: sparsify, expand_sparse.
inline constexpr std::uint8_t kSparsifyKernel = 8;

// Fills `packed`, made by empty_packed(), from w [n, k]: rows contiguous, packed's dtype.
void sparsify(const Array& w, const PackedWeight& packed);

// out [n, k], contiguous, of any float dtype: the weights with zeros.
void expand_sparse(const PackedWeight& packed, const Array& out);

void enumerate_sparse(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops
