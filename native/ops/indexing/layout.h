// The layout of an indexed copy: which word of one side goes with which word of the other. Built
// from shapes and strides, made as short as possible, then given to a kernel as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/array.h"
#include "ops/indexing/key.h"

namespace gpk::ops {

// What happens to an index outside [-size, size). kOffset: values are offsets, not indices.
// kStrict: as kRaise, and negative ones are out of bounds too.
enum class IndexMode : int { kRaise, kWrap, kClip, kOffset, kStrict };

// An offset that selects nothing.
inline constexpr std::int64_t kSkipOffset = INT64_MIN;

// The three structs are mirrored in kernels/indexing/layout.cuh.
template <int kMaxDims>
struct IndexSource {
  std::uint64_t data = 0;
  std::int64_t size = 0;  // of the indexed axis
  std::int64_t step = 0;  // of side a per index
  std::int64_t stride[kMaxDims] = {};
  std::int32_t axis = 0;
  std::int32_t code = 0;
};

template <int kMaxDims, int kMaxIndexes>
struct IndexedLayout {
  std::int64_t total = 1;
  std::int64_t size[kMaxDims] = {};
  std::int64_t a[kMaxDims] = {};  // strides of the array that is indexed
  std::int64_t b[kMaxDims] = {};  // of the other
  IndexSource<kMaxDims> index[kMaxIndexes];
  std::int32_t rank = 0;
  std::int32_t num_indexes = 0;
  std::int32_t mode = 0;
  std::int32_t unused = 0;
};

using WideLayout = IndexedLayout<32, 4>;
using NarrowLayout = IndexedLayout<8, 1>;  // a shorter kernel argument for the usual cases

// Index types as kernels know them; -1 for what is no integer type.
int index_code(DType dtype) noexcept;

// The axes of result_shape(view, picked, middle, at), side a set from the view.
// `middle_axis`: where those of `middle` begin.
struct AxesLayout {
  WideLayout layout;
  int middle_axis = 0;
};
AxesLayout make_axes(const Array& view, std::uint32_t picked, const Dims& middle, int at);

// The next index: an array that broadcasts to `middle`, whose values are `step` apart in side a.
void add_index(AxesLayout& axes, const Dims& middle, const Array& array, std::int64_t size,
               std::int64_t step, int axis);

// Both for an indexed view. At most 4 indexes.
WideLayout make_layout(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                       int at);
std::uint32_t picked_axes(const std::vector<AxisIndex>& indexes) noexcept;

// Side b of a layout that is not collapsed yet: strides of an array of the layout's shape.
void set_plain_side(WideLayout& layout, const Dims& strides);

// Drops axes of size 1 and joins axes that are one in all strides. At least one axis is left.
void collapse(WideLayout& layout);

// Wider words than elements: the largest of 2, 4, 8, 16 bytes that divides rows, strides and
// addresses of both sides where the last axis is contiguous in both (`scalar`: in a), and rescales
// the layout to it. Returns bytes per word; `item` where there is nothing to gain.
std::size_t widen(WideLayout& layout, std::size_t item, std::uintptr_t a, std::uintptr_t b,
                  bool scalar);

bool fits_narrow(const WideLayout& layout) noexcept;
NarrowLayout narrow(const WideLayout& layout) noexcept;

std::string to_string(const WideLayout& layout);

}  // namespace gpk::ops
