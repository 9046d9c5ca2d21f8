#include "ops/reduction/layout.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace gpk::ops::reduction {
namespace {

struct Dim {
  std::int64_t size;
  std::int64_t in;
  std::int64_t out;
};

struct DimList {
  std::array<Dim, kMaxRank> dims;
  int count = 0;
  void add(Dim dim) { dims[static_cast<std::size_t>(count++)] = dim; }
  Dim* begin() { return dims.data(); }
  Dim* end() { return dims.data() + count; }
};

void sort_by_memory(DimList& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const Dim& a, const Dim& b) { return std::abs(a.in) > std::abs(b.in); });
}

// Neighbours that one stride describes become one.
void merge(DimList& list) {
  int last = 0;
  for (int i = 1; i < list.count; ++i) {
    Dim& a = list.dims[static_cast<std::size_t>(last)];
    const Dim& b = list.dims[static_cast<std::size_t>(i)];
    if (a.in == b.in * b.size && a.out == b.out * b.size) {
      a = {a.size * b.size, b.in, b.out};
    } else {
      list.dims[static_cast<std::size_t>(++last)] = b;
    }
  }
  list.count = std::min(list.count, last + 1);
}

}  // namespace

Collapsed collapse(const Array& x, std::uint32_t axes, const Array& out, bool ordered) {
  Collapsed result;
  ReduceLayout& layout = result.layout;
  DimList kept;
  DimList reduced;
  int out_axis = 0;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const std::int64_t size = x.shape()[axis];
    const std::int64_t stride = x.strides()[axis];
    if ((axes >> axis & 1u) == 0) {
      if (size != 1) kept.add({size, stride, out.strides()[out_axis]});
      layout.kept *= size;
      ++out_axis;
      continue;
    }
    layout.reduced *= size;
    if (size == 1) continue;
    const bool turn = !ordered && stride < 0;
    if (turn) result.in_offset += (size - 1) * stride;
    reduced.add({size, turn ? -stride : stride, 0});
  }
  if (layout.reduced == 0) reduced.count = 0;
  sort_by_memory(kept);
  if (!ordered) sort_by_memory(reduced);
  merge(kept);
  merge(reduced);
  if (kept.count > ReduceLayout::kMaxDims || reduced.count > ReduceLayout::kMaxDims) {
    result.fits = false;
    return result;
  }
  layout.num_kept = kept.count;
  layout.num_reduced = reduced.count;
  for (int i = 0; i < kept.count; ++i) {
    const Dim& dim = kept.dims[static_cast<std::size_t>(i)];
    layout.kept_size[i] = dim.size;
    layout.kept_in[i] = dim.in;
    layout.kept_out[i] = dim.out;
  }
  for (int i = 0; i < reduced.count; ++i) {
    const Dim& dim = reduced.dims[static_cast<std::size_t>(i)];
    layout.reduced_size[i] = dim.size;
    layout.reduced_in[i] = dim.in;
  }
  return result;
}

}  // namespace gpk::ops::reduction
