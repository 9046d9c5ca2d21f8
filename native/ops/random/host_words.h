// Random words on the host, for CPU simulation: the definition is
// pygpukit._reference.random.philox.
#pragma once

#include <cstdint>
#include <span>

namespace gpk::ops {

// Where words come from: a key, a 96-bit position, and the number of the attempt.
struct WordSource {
  std::uint64_t key = 0;
  std::uint64_t position_low = 0;
  std::uint32_t position_high = 0;
  std::uint32_t attempt = 0;
};

// The four words of each block from `first` on; out.size() is a multiple of 4.
void random_words(const WordSource& source, std::uint64_t first, std::span<std::uint32_t> out);

}  // namespace gpk::ops
