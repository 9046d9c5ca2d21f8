// A number for a text, the same in every library of the process.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpk {

// FNV-1a, up to the first NUL.
constexpr std::uint64_t text_id(std::string_view text) noexcept {
  std::uint64_t id = 0xcbf29ce484222325U;
  for (const char c : text.substr(0, text.find('\0')))
    id = (id ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return id;
}

}  // namespace gpk
