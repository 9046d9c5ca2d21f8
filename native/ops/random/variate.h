// Draws by rejection, one thread per element: the kernels behind random_gamma and the like.
#pragma once

#include <vector>

#include "jit/builtin.h"

namespace gpk::ops::random {

enum class VariateKind : std::uint8_t { kGamma, kPoisson, kBinomial };

void enumerate_variates(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::random
