// Shapes and strides: short lists of 64-bit sizes. No heap use up to eight dimensions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

namespace gpk::inline core {

inline constexpr int kMaxRank = 32;

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span<const std::int64_t>(values.begin(), values.size())) {}
  // Throws InvalidArgument above kMaxRank values.
  explicit Dims(std::span<const std::int64_t> values);
  Dims(const Dims& other) : Dims(other.span()) {}
  Dims(Dims&& other) noexcept = default;
  Dims& operator=(const Dims& other) {
    if (this != &other) *this = Dims(other.span());
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept = default;
  ~Dims() = default;

  // `rank` values, all `fill`.
  static Dims filled(int rank, std::int64_t fill);

  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const std::int64_t* data() const noexcept { return heap_ ? heap_.get() : inline_; }
  [[nodiscard]] std::int64_t* data() noexcept { return heap_ ? heap_.get() : inline_; }
  std::int64_t operator[](int i) const noexcept { return data()[i]; }
  std::int64_t& operator[](int i) noexcept { return data()[i]; }
  [[nodiscard]] const std::int64_t* begin() const noexcept { return data(); }
  [[nodiscard]] const std::int64_t* end() const noexcept { return data() + size_; }
  [[nodiscard]] std::span<const std::int64_t> span() const noexcept {
    return {data(), static_cast<std::size_t>(size_)};
  }
  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  static constexpr int kInline = 8;
  int size_ = 0;
  std::int64_t inline_[kInline] = {};
  std::unique_ptr<std::int64_t[]> heap_;  // set only when size_ > kInline
};

// Number of elements; 1 for the empty shape. Throws InvalidArgument, naming `op`, for negative
// sizes and for products beyond 2**63 - 1.
std::int64_t num_elements(const Dims& shape, const char* op);

// C-order strides in elements.
Dims contiguous_strides(const Dims& shape);

// "(2, 3)", "(4,)", "()", as Python writes tuples.
std::string to_string(const Dims& dims);

}  // namespace gpk::inline core
