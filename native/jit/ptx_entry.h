// One kernel out of PTX that holds several.
#pragma once

#include <string>

namespace gpk::jit {

// The PTX with one of its kernels; everything else of the module stays. Throws Error when `symbol`
// is not one of them.
std::string keep_entry(const std::string& ptx, const std::string& symbol);

}  // namespace gpk::jit
