// The argument structs of kernels/elementwise/map.cuh, laid out by hand: their sizes depend on the
// number of operands, the rank and the width of offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/elementwise/map.h"

namespace gpk::ops {

// Spelling of a dtype in kernels, also of the storage types that only copies touch.
const char* kernel_type(DType dtype);

class MapParams {
 public:
  void write(const MapPlan& plan, const Layout& layout, std::span<const MapOperand> operands,
             const Array& result);
  // Moves the arrays of a dense plan on by `elems` elements, after write().
  void advance(const MapPlan& plan, std::span<const MapOperand> operands, const Array& result,
               std::int64_t elems);
  [[nodiscard]] void* bytes() noexcept { return bytes_; }

 private:
  template <class T>
  void put(T value);
  void align(std::size_t to);
  void write_axes(const MapPlan& plan, const Layout& layout, int rank);

  alignas(16) unsigned char bytes_[4096];
  std::size_t at_ = 0;
};

// q = (mulhi(n, magic) + n) >> shift divides every n < 2**31 by `divisor`, 1 to 2**31 - 1.
struct Divider {
  std::uint32_t divisor, magic, shift;
};
Divider make_divider(std::int64_t divisor) noexcept;

}  // namespace gpk::ops
