// A small LZ77 codec for repetitive text, such as the PTX of many instantiations of one kernel.
// Optimised for a cheap, safe decoder and for being deflated afterwards; the window is 8 MiB.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpk::jit {

std::string compress(std::string_view raw);

// Throws Error for corrupt input (the output is verified by a 64-bit hash) and for more than
// `max_bytes` of output.
std::string decompress(std::string_view packed, std::size_t max_bytes = std::size_t{1} << 30);

}  // namespace gpk::jit
