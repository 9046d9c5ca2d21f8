// The type that kernels move elements as where only their size matters.
#pragma once

#include <cstddef>

namespace gpk::ops {

// "unsigned int" for 4 bytes; of 1, 2, 4, 8 and 16.
constexpr const char* word_type(std::size_t bytes) {
  switch (bytes) {
    case 1: return "unsigned char";
    case 2: return "unsigned short";
    case 4: return "unsigned int";
    case 8: return "unsigned long long";
    default: return "gpk::Word16";  // kernels/common/vec.cuh
  }
}

}  // namespace gpk::ops
