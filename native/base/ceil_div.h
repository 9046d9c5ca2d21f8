// Integer division that rounds up.
#pragma once

#include <cstdint>

namespace gpk::inline base {

// x >= 0, y > 0.
constexpr std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

}  // namespace gpk::inline base
