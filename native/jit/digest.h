// SHA-256 (FIPS 180-4), and keys of labelled, length-prefixed fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpk::jit {

using Sha256Bytes = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256& update(std::string_view bytes);

  // Finalises the digest; the object must not be used afterwards.
  [[nodiscard]] Sha256Bytes finish();

 private:
  void block(const std::uint8_t* bytes);

  std::array<std::uint32_t, 8> state_{0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                      0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  std::array<std::uint8_t, 64> pending_{};
  std::size_t num_pending_ = 0;
  std::uint64_t num_bytes_ = 0;
};

Sha256Bytes sha256(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);  // 64 lower-case characters
std::string to_hex(const Sha256Bytes& bytes);

// Injective up to SHA-256 collisions: two builders give the same hex() only when the same fields
// were added in the same order.
//   FieldDigest().field("sm", "90").field("source", text).hex()
class FieldDigest {
 public:
  FieldDigest& field(std::string_view label, std::string_view value);

  // Finalises the key, like Sha256::finish.
  [[nodiscard]] std::string hex() { return to_hex(hash_.finish()); }

 private:
  void prefixed(std::string_view bytes);
  Sha256 hash_;
};

}  // namespace gpk::jit
