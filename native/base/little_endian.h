// Numbers in files, the least byte first.
#pragma once

#include <cstdint>
#include <ranges>

namespace gpk::inline base {

// Of up to eight bytes: char, unsigned char or std::byte.
template <std::ranges::bidirectional_range Bytes>
constexpr std::uint64_t little_endian(const Bytes& bytes) {
  std::uint64_t value = 0;
  for (const auto byte : bytes | std::views::reverse)
    value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

}  // namespace gpk::inline base
