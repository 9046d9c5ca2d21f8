// Special registers.
#pragma once

#include <string_view>

#include "sim/machine.h"

namespace gpk::sim {

struct SpecialInfo {
  SpecialRegister id;
  unsigned bytes;
};
// bytes 0: no such register.
SpecialInfo special_named(std::string_view name);

// Writes the special registers a frame's function reads, but for clocks.
void fill_specials(const Warp& warp, Frame& frame);

Dim3 thread_at(const Grid& grid, unsigned linear);

}  // namespace gpk::sim
