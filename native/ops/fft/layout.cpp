#include "ops/fft/layout.h"

#include <algorithm>

namespace gpk::ops::fft {
namespace {

using kernels::FftCoord;

bool can_merge(const FftCoord& outer, const FftCoord& inner) {
  return outer.in == inner.in * inner.size && outer.out == inner.out * inner.size;
}

}  // namespace

AxisLayout layout_of(const Array& in, const Array& out, int axis) {
  AxisLayout layout;
  // The stride of an axis with one element means nothing.
  layout.in_stride = in.shape()[axis] > 1 ? in.strides()[axis] : 1;
  layout.out_stride = out.shape()[axis] > 1 ? out.strides()[axis] : 1;
  layout.in_row = layout.in_stride == 1;
  layout.out_row = layout.out_stride == 1;
  std::vector<FftCoord> all;
  for (int d = 0; d < in.ndim(); ++d)
    if (d != axis && in.shape()[d] > 1)
      all.push_back({in.shape()[d], in.strides()[d], out.strides()[d], 0, 0});
  std::stable_sort(all.begin(), all.end(),
                   [](const FftCoord& a, const FftCoord& b) { return a.out < b.out; });
  for (const FftCoord& coord : all) {
    if (!layout.coords.empty() && can_merge(coord, layout.coords.back())) {
      layout.coords.back().size *= coord.size;
    } else {
      layout.coords.push_back(coord);
    }
  }
  if (layout.coords.empty()) layout.coords.push_back({1, 0, 0, 0, 0});
  // Columns of a block are adjacent in the input where they can be, else in the output.
  const auto adjacent = std::find_if(layout.coords.begin(), layout.coords.end(),
                                     [](const FftCoord& coord) { return coord.in == 1; });
  if (!layout.in_row && adjacent != layout.coords.end())
    std::rotate(layout.coords.begin(), adjacent, adjacent + 1);
  layout.in_column = layout.coords[0].in == 1;
  return layout;
}

}  // namespace gpk::ops::fft
