// The next multiple.
#pragma once

#include <concepts>
#include <type_traits>

namespace gpk::inline base {

// x >= 0, unit > 0; x + unit - 1 must fit T.
template <std::integral T>
constexpr T round_up(T x, std::type_identity_t<T> unit) {
  return (x + unit - 1) / unit * unit;
}

}  // namespace gpk::inline base
