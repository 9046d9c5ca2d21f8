#include "ops/indexing/layout.h"

#include <algorithm>

#include "base/text.h"
#include "ops/device_address.h"

namespace gpk::ops::indexing {
namespace {

void push(WideLayout& layout, std::int64_t size, std::int64_t stride) {
  layout.size[layout.rank] = size;
  layout.a[layout.rank] = stride;
  layout.total *= size;
  ++layout.rank;
}

bool joins(const WideLayout& l, int outer, int inner) {
  const std::int64_t size = l.size[inner];
  if (l.a[outer] != l.a[inner] * size || l.b[outer] != l.b[inner] * size) return false;
  for (int k = 0; k < l.num_indexes; ++k)
    if (l.index[k].stride[outer] != l.index[k].stride[inner] * size) return false;
  return true;
}

void move_axis(WideLayout& l, int to, int from) {
  l.size[to] = l.size[from];
  l.a[to] = l.a[from];
  l.b[to] = l.b[from];
  for (int k = 0; k < l.num_indexes; ++k) l.index[k].stride[to] = l.index[k].stride[from];
}

}  // namespace

kernels::IndexType index_type(DType dtype) noexcept {
  using kernels::IndexType;
  switch (dtype) {
    case DType::kInt8: return IndexType::kInt8;
    case DType::kInt16: return IndexType::kInt16;
    case DType::kInt32: return IndexType::kInt32;
    case DType::kInt64: return IndexType::kInt64;
    case DType::kUInt8: return IndexType::kUInt8;
    case DType::kUInt16: return IndexType::kUInt16;
    case DType::kUInt32: return IndexType::kUInt32;
    default: return IndexType::kUInt64;
  }
}

std::uint32_t picked_axes(const std::vector<AxisIndex>& indexes) noexcept {
  std::uint32_t picked = 0;
  for (const AxisIndex& index : indexes) picked |= 1u << index.axis;
  return picked;
}

AxesLayout make_axes(const Array& view, std::uint32_t picked, const Dims& middle, int at) {
  AxesLayout axes;
  WideLayout& layout = axes.layout;
  axes.middle_axis = -1;
  int num_free = 0;
  const auto put_middle = [&] {
    axes.middle_axis = layout.rank;
    for (const std::int64_t size : middle) push(layout, size, 0);
  };
  for (int i = 0; i < view.ndim(); ++i) {
    if ((picked >> i & 1u) != 0) continue;
    if (num_free++ == at) put_middle();
    push(layout, view.shape()[i], view.strides()[i]);
  }
  if (axes.middle_axis < 0) put_middle();
  return axes;
}

void add_index(AxesLayout& axes, const Dims& middle, const Array& array, std::int64_t size,
               std::int64_t step, int axis) {
  auto& source = axes.layout.index[axes.layout.num_indexes++];
  source.data = address(array);
  source.size = size;
  source.step = step;
  source.axis = axis;
  source.type = index_type(array.dtype());
  const int first = axes.middle_axis + middle.size() - array.ndim();
  for (int i = 0; i < array.ndim(); ++i)
    if (array.shape()[i] != 1) source.stride[first + i] = array.strides()[i];
}

WideLayout make_layout(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                       int at) {
  AxesLayout axes = make_axes(view, picked_axes(indexes), middle, at);
  for (const AxisIndex& index : indexes)
    add_index(axes, middle, index.array, view.shape()[index.axis], view.strides()[index.axis],
              index.source_axis);
  return axes.layout;
}

void set_plain_side(WideLayout& layout, const Dims& strides) {
  std::copy(strides.begin(), strides.end(), layout.b);
}

void collapse(WideLayout& layout) {
  int rank = 0;
  for (int i = 0; i < layout.rank; ++i) {
    if (layout.size[i] == 1) continue;
    if (rank > 0 && joins(layout, rank - 1, i)) {
      const std::int64_t size = layout.size[rank - 1] * layout.size[i];
      move_axis(layout, rank - 1, i);
      layout.size[rank - 1] = size;
    } else {
      move_axis(layout, rank++, i);
    }
  }
  if (rank == 0) {
    layout.size[0] = 1;
    layout.a[0] = layout.b[0] = 0;
    for (int k = 0; k < layout.num_indexes; ++k) layout.index[k].stride[0] = 0;
    rank = 1;
  }
  layout.rank = rank;
}

std::size_t widen(WideLayout& layout, std::size_t item, std::uintptr_t a, std::uintptr_t b,
                  bool scalar) {
  const int last = layout.rank - 1;
  if (layout.a[last] != 1 || (!scalar && layout.b[last] != 1)) return item;
  std::int64_t bits = layout.size[last];  // in elements: OR of everything that must be divisible
  for (int i = 0; i < last; ++i) bits |= layout.a[i] | (scalar ? 0 : layout.b[i]);
  for (int k = 0; k < layout.num_indexes; ++k) {
    if (layout.index[k].stride[last] != 0) return item;
    bits |= layout.index[k].step;
  }
  std::uintptr_t bytes = static_cast<std::uintptr_t>(bits) * item | a | 16u;
  if (!scalar) bytes |= b;
  const std::size_t word = static_cast<std::size_t>(bytes & (~bytes + 1));
  if (word <= item) return item;
  const auto ratio = static_cast<std::int64_t>(word / item);
  layout.size[last] /= ratio;
  layout.total /= ratio;
  for (int i = 0; i < last; ++i) {
    layout.a[i] /= ratio;
    layout.b[i] /= ratio;
  }
  for (int k = 0; k < layout.num_indexes; ++k) layout.index[k].step /= ratio;
  if (layout.size[last] == 1 && last > 0) --layout.rank;  // a row is one word
  return word;
}

bool fits_narrow(const WideLayout& layout) noexcept {
  using kernels::IndexType;
  const IndexType type = layout.index[0].type;
  return layout.num_indexes == 1 && layout.rank <= 8 &&
         (type == IndexType::kInt32 || type == IndexType::kInt64 || type == IndexType::kUInt64);
}

NarrowLayout narrow(const WideLayout& layout) noexcept {
  auto result = with_axes<NarrowLayout>(layout);
  result.mode = layout.mode;
  const auto& source = layout.index[0];
  auto& target = result.index[0];
  target.data = source.data;
  target.size = source.size;
  target.step = source.step;
  target.axis = source.axis;
  target.type = source.type;
  std::copy_n(source.stride, layout.rank, target.stride);
  return result;
}

std::string to_string(const WideLayout& layout) {
  std::string axes;
  for (int i = 0; i < layout.rank; ++i) {
    axes += cat(i > 0 ? ", " : "", layout.size[i], ":a", layout.a[i], "b", layout.b[i]);
    for (int k = 0; k < layout.num_indexes; ++k) axes += cat('i', layout.index[k].stride[i]);
  }
  std::string steps;
  for (int k = 0; k < layout.num_indexes; ++k)
    steps += cat(", step=", layout.index[k].step, " of ", layout.index[k].size);
  return cat("layout(", axes, steps, ")");
}

}  // namespace gpk::ops::indexing
