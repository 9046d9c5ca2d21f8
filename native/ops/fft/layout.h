// The coordinates of the transforms of two arrays.
#pragma once

#include <vector>

#include "core/array.h"
#include "kernels/args/fft.h"

namespace gpk::ops::fft {

struct AxisLayout {
  std::vector<kernels::FftCoord> coords;  // of transforms, merged; the first has adjacent ones
  std::int64_t in_stride = 1;
  std::int64_t out_stride = 1;
  bool in_row = true;  // elements along the axis are adjacent
  bool out_row = true;
  bool in_column = true;  // transforms along coords[0] are
};

// All axes but `axis` have equal sizes in both.
AxisLayout layout_of(const Array& in, const Array& out, int axis);

}  // namespace gpk::ops::fft
