// Functions that the epilogue of a convolution applies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/args/conv.h"

namespace gpk::ops::conv {

enum class Activation : std::uint8_t {
  kNone = kernels::kConvNone,
  kRelu = kernels::kConvRelu,
  kGelu = kernels::kConvGelu,  // the tanh form
  kGeluErf = kernels::kConvGeluErf,
  kSilu = kernels::kConvSilu,
  kTanh = kernels::kConvTanh,
};
const char* name(Activation activation);  // "none", "relu", "gelu", "gelu_erf", "silu", "tanh"

// nullopt: none of the names.
std::optional<Activation> activation_of(std::string_view name);

}  // namespace gpk::ops::conv
