// The arguments of a kernel of kernels/elementwise/map.cuh. Which struct of kernels/args they are
// depends on the number of operands, the rank and the width of offsets.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/args/elementwise.h"
#include "ops/elementwise/map.h"

namespace gpk::ops::elementwise {

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
  using Largest = kernels::AnyArgs<kMaxOperands - 1>;
  alignas(Largest) unsigned char bytes_[sizeof(Largest)];
};

kernels::Divider make_divider(std::int64_t divisor) noexcept;

}  // namespace gpk::ops::elementwise
