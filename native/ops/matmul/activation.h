// Functions that an epilogue applies to each result.
#pragma once

#include <cstdint>

#include "kernels/args/matmul.h"

namespace gpk::ops {

enum class Activation : std::uint8_t {
  kNone = kernels::kActivationNone,
  kRelu = kernels::kActivationRelu,
  kGelu = kernels::kActivationGelu,  // the tanh form
  kSilu = kernels::kActivationSilu,
  kGeluErf = kernels::kActivationGeluErf,
};
const char* name(Activation activation);  // "none", "relu", "gelu", "silu", "gelu_erf"

}  // namespace gpk::ops
