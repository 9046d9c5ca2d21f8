// The fields of a plan that select code, packed into the 64 bits of a kernel key.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace gpk::plan {

// Throws gpk::Error: the fields need more bits than they were given. Two variants would share a
// key, and one would run the other's kernel.
[[noreturn]] void key_overflow(const char* field, std::uint64_t value, int bits, int used);

// KeyBuilder().field("vec", plan.vec, 5).field("dtype", dtype, 5).key()
//
// Injective for a fixed list of names and widths: every value is checked against its width, and the
// widths against 64 bits. Names are for the message only.
class KeyBuilder {
 public:
  template <class T>
    requires std::integral<T> || std::is_enum_v<T>
  constexpr KeyBuilder& field(const char* name, T value, int bits) {
    const auto number = static_cast<std::uint64_t>(value);  // negative: above every width below 64
    if (bits > kMaxBits - used_ || (bits < kMaxBits && number >> bits != 0)) [[unlikely]]
      key_overflow(name, number, bits, used_);
    key_ |= number << used_;
    used_ += bits;
    return *this;
  }
  [[nodiscard]] constexpr std::uint64_t key() const noexcept { return key_; }

 private:
  static constexpr int kMaxBits = 64;
  std::uint64_t key_ = 0;
  int used_ = 0;
};

// Width of a field that holds a DType.
inline constexpr int kDTypeBits = 5;

}  // namespace gpk::plan
