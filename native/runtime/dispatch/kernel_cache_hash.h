// A hash that is the same on every machine and in every run.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpk::runtime {

// FNV-1a over length-prefixed fields, so that ("ab", "c") and ("a", "bc") differ. For keys and
// against torn files; not against somebody who wants a collision.
class Hasher {
 public:
  Hasher& add(std::string_view field) noexcept {
    for (std::uint64_t length = field.size(), i = 0; i < 8; ++i)
      add_byte(static_cast<unsigned char>(length >> (8 * i)));
    for (const char c : field) add_byte(static_cast<unsigned char>(c));
    return *this;
  }
  // Mixed once more: FNV alone leaves the last bytes in the low bits.
  [[nodiscard]] std::uint64_t value() const noexcept {
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 33)) * 0xff51afd7ed558ccdULL;
    mixed = (mixed ^ (mixed >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return mixed ^ (mixed >> 33);
  }

 private:
  void add_byte(unsigned char byte) noexcept { state_ = (state_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace gpk::runtime
