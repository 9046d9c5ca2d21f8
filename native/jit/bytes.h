// Length-prefixed binary fields, little endian, for cache entries and bundles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/little_endian.h"

namespace gpk::jit {

class ByteWriter {
 public:
  void u8(std::uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void u32(std::uint32_t value) { fixed(value, 4); }
  void u64(std::uint64_t value) { fixed(value, 8); }
  void raw(std::string_view bytes) { out_.append(bytes); }
  void text(std::string_view bytes) {
    u64(bytes.size());
    raw(bytes);
  }
  [[nodiscard]] const std::string& bytes() const noexcept { return out_; }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void fixed(std::uint64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) u8(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  std::string out_;
};

// Views into `bytes`, which must outlive the reader. Throws Error when the bytes run out.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(fixed(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(fixed(4)); }
  std::uint64_t u64() { return fixed(8); }
  std::string_view raw(std::uint64_t num_bytes) {
    if (num_bytes > rest_.size()) throw Error("jit: packed data is truncated");
    const std::string_view out = rest_.substr(0, static_cast<std::size_t>(num_bytes));
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view text() { return raw(u64()); }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

 private:
  std::uint64_t fixed(std::size_t num_bytes) { return little_endian(raw(num_bytes)); }
  std::string_view rest_;
};

}  // namespace gpk::jit
