// What to install when user code includes CUDA headers that are not there.
#pragma once

#include <string>
#include <string_view>

#include "jit/nvrtc.h"

namespace gpk::jit {

// One sentence with the pip command, when `log` says that a CUDA header could not be opened and
// the headers we have do not include it; empty otherwise.
std::string missing_header_advice(std::string_view log, const Nvrtc& nvrtc);

}  // namespace gpk::jit
