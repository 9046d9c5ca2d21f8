// What to install when user code includes CUDA headers that are not installed.
#pragma once

#include <string>
#include <string_view>

#include "jit/nvrtc.h"

namespace gpk::jit {

// One sentence with the pip command, when `log` reports that a CUDA header could not be opened and
// the headers found do not contain it; empty otherwise.
std::string missing_header_advice(std::string_view log, const Nvrtc& nvrtc);

}  // namespace gpk::jit
