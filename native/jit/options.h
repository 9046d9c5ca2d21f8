// Compiler options as written for nvcc, and their translation for NVRTC.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpk::jit {

// Options for NVRTC. Dropped: nvcc spellings of NVRTC defaults (-O3, -x cu, -m64, -arch=native).
// "-std" and its value in two strings become one. Everything else is passed through.
std::vector<std::string> nvrtc_options(const std::vector<std::string>& options);

// Why NVRTC failed with kInvalidOption, from its log: the option, what to write instead, and the
// options NVRTC has.
std::string explain_invalid_option(std::string_view log);

}  // namespace gpk::jit
