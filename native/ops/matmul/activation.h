// Functions that an epilogue applies to each result.
#pragma once

#include <cstdint>

namespace gpk::ops {

enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kSilu };  // kGelu: the tanh form
const char* name(Activation activation);  // "none", "relu", "gelu", "silu"

}  // namespace gpk::ops
