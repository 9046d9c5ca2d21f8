#include "ops/conv/activation.h"

#include <iterator>

namespace gpk::ops::conv {
namespace {

constexpr const char* kNames[] = {"none", "relu", "gelu", "gelu_erf", "silu", "tanh"};

}  // namespace

const char* name(Activation activation) { return kNames[static_cast<int>(activation)]; }

std::optional<Activation> activation_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Activation>(i);
  return std::nullopt;
}

}  // namespace gpk::ops::conv
