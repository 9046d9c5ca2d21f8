// The layout of an indexed copy: which word of one side maps to which word of the other. Built from
// shapes and strides, collapsed to as few axes as possible, then passed to a kernel as is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/array.h"
#include "kernels/args/indexing.h"
#include "ops/indexing/key.h"

namespace gpk::ops::indexing {

using kernels::NarrowLayout;
using kernels::WideLayout;

// The type kernels use to read an array of indices; an integer dtype.
kernels::IndexType index_type(DType dtype) noexcept;

// The axes of result_shape(view, picked, middle, at), with side a taken from the view.
// `middle_axis`: where the axes of `middle` begin.
struct AxesLayout {
  WideLayout layout;
  int middle_axis = 0;
};
AxesLayout make_axes(const Array& view, std::uint32_t picked, const Dims& middle, int at);

// Adds an index: an array that broadcasts to `middle`; its values have stride `step` in side a.
void add_index(AxesLayout& axes, const Dims& middle, const Array& array, std::int64_t size,
               std::int64_t step, int axis);

// Both for an indexed view. At most 4 indexes.
WideLayout make_layout(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                       int at);
std::uint32_t picked_axes(const std::vector<AxisIndex>& indexes) noexcept;

// Side b of a layout that is not collapsed yet: strides of an array of the layout's shape.
void set_plain_side(WideLayout& layout, const Dims& strides);

// Drops axes of size 1 and merges axes that are contiguous in all strides. Leaves at least one
// axis.
void collapse(WideLayout& layout);

// Vectorises: picks the largest word of 2, 4, 8, 16 bytes that divides rows, strides and addresses
// of both sides where the last axis is contiguous in both (`scalar`: in a), and rescales the layout
// to it. Returns bytes per word; `item` where nothing is gained.
std::size_t widen(WideLayout& layout, std::size_t item, std::uintptr_t a, std::uintptr_t b,
                  bool scalar);

// The axes of both sides in a layout of another capacity; index arrays are left to the caller.
template <class Layout>
Layout with_axes(const WideLayout& layout) noexcept {
  Layout result;
  result.total = layout.total;
  result.rank = layout.rank;
  result.num_indexes = layout.num_indexes;
  std::copy_n(layout.size, layout.rank, result.size);
  std::copy_n(layout.a, layout.rank, result.a);
  std::copy_n(layout.b, layout.rank, result.b);
  return result;
}

bool fits_narrow(const WideLayout& layout) noexcept;
NarrowLayout narrow(const WideLayout& layout) noexcept;

std::string to_string(const WideLayout& layout);

}  // namespace gpk::ops::indexing
