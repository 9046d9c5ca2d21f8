// Compiler options as people write them for nvcc, and what NVRTC takes of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpk::jit {

// The options for NVRTC. Dropped: nvcc's spellings of what NVRTC does by default (-O3, -x cu, -m64,
// -arch=native). "-std" and its value in two strings become one. The rest is left to NVRTC.
std::vector<std::string> nvrtc_options(const std::vector<std::string>& options);

// Why NVRTC failed with kInvalidOption, from its log: the option, what to write instead, and the
// options NVRTC has.
std::string explain_invalid_option(std::string_view log);

}  // namespace gpk::jit
