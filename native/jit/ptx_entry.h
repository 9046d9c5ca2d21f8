// Extracts one kernel from PTX that holds several.
#pragma once

#include <string>

namespace gpk::jit {

// The PTX with only the kernel `symbol`; everything else in the module stays. Throws Error when
// there is no such kernel.
std::string keep_entry(const std::string& ptx, const std::string& symbol);

}  // namespace gpk::jit
