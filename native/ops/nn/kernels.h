// Every kernel of the family by number, and the variants that plans choose.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "jit/builtin.h"

namespace gpk::ops::nn {

enum class NnKernel : std::uint8_t {
  kNorm,
  kSoftmaxRows,
  kSoftmaxColumns,
  kLogLikelihood,
  kRope,
  kEmbedding
};

// Dtypes of elements, and of the weights or tables beside them.
inline constexpr std::pair<DType, DType> kWeightTypes[] = {{DType::kFloat16, DType::kFloat16},
                                                           {DType::kFloat16, DType::kFloat32},
                                                           {DType::kBFloat16, DType::kBFloat16},
                                                           {DType::kBFloat16, DType::kFloat32},
                                                           {DType::kFloat32, DType::kFloat32}};

void enumerate_norm(std::vector<jit::KernelSpec>& specs);
void enumerate_softmax(std::vector<jit::KernelSpec>& specs);
void enumerate_log_likelihood(std::vector<jit::KernelSpec>& specs);
void enumerate_rope(std::vector<jit::KernelSpec>& specs);
void enumerate_embedding(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::nn
