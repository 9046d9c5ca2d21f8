// Keys of a[key]: the basic part becomes a view; integer arrays and masks are left for gather and
// scatter. No heap allocation for keys without arrays.
#pragma once

#include <span>
#include <vector>

#include "core/array.h"
#include "kernels/args/indexing.h"

namespace gpk::ops {

using kernels::IndexMode;

struct IndexItem {
  enum class Kind : std::uint8_t {
    kInteger,   // start
    kSlice,     // start, stop, step, as from PySlice_Unpack: open ends are very large
    kEllipsis,  // expands to as many full slices as are missing
    kNewAxis,
    kArray,  // an integer array
    kMask,   // a bool array of one or more dimensions
    kBool,   // a single bool, in start: a 0-d mask
  };
  Kind kind;
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
  const Array* array;  // kArray, kMask
};

// What a key of integers, slices, newaxis and ellipsis selects, with select()'s errors.
Array select_view(const Array& array, std::span<const IndexItem> items, const char* op);

namespace indexing {

// One axis of the view and the array that picks from it.
struct AxisIndex {
  Array array;      // integers
  int axis;         // of the view
  int source_axis;  // of the array before the basic part, for messages
};

struct AxisMask {
  Array mask;
  int axis;  // the first of mask.ndim() axes of the view
  int source_axis;
};

// What any key selects. The result has the view's axes that nothing picks from ("free"), in order,
// and before free axis `at` those of the index arrays, broadcast together.
struct Selection {
  Array view;
  std::vector<AxisIndex> indexes;
  std::vector<AxisMask> masks;
  std::vector<Dims> extra;  // shapes of indices without an axis: (1,) or (0,) for a bool
  int at = 0;
  [[nodiscard]] bool basic() const noexcept {
    return indexes.empty() && masks.empty() && extra.empty();
  }
};

// Throws InvalidArgument (kIndex) as NumPy does: too many indices, out of bounds, two ellipses,
// masks of the wrong shape.
Selection select(const Array& array, std::span<const IndexItem> items, const char* op);

// The index arrays' common shape; kIndex where there is none.
Dims broadcast_indexes(const std::vector<AxisIndex>& indexes, const std::vector<Dims>& extra,
                       const char* op);

// Free axes of a view whose `picked` bits are clear, with `middle` before the one at `at`.
Dims result_shape(const Dims& view, std::uint32_t picked, const Dims& middle, int at,
                  const char* op);

}  // namespace indexing

}  // namespace gpk::ops
