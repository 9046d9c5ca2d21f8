// Masks: counting true elements, locating them, and masked stores.
#pragma once

#include <optional>
#include <vector>

#include "core/array.h"
#include "ops/indexing/move.h"

namespace gpk::ops::indexing {

// A counted mask. Reading the count back is the only place where indexing waits for the GPU, since
// shapes depend on it; it cannot be captured.
struct CountedMask {
  Array mask;                 // bool, C-contiguous
  std::int64_t count = 0;     // true elements
  std::int64_t chunk = 0;     // elements per block (GPU)
  std::optional<Array> sums;  // true elements before each block (GPU)
};
CountedMask count_true(const Array& mask, const char* op);

// Coordinates of the true elements in C order: int64, shape (ndim, count).
Array true_coordinates(const CountedMask& mask, const char* op);

// On a GPU: for each true element sum(coordinate * stride) / ratio, as int64.
Array true_offsets(const CountedMask& mask, std::span<const std::int64_t> strides,
                   std::int64_t ratio, const char* op);

// On a GPU: the elements of `array`, which has the mask's shape, that are true. `out` is
// contiguous.
void compact_on_gpu(const Array& out, const Array& array, const CountedMask& mask);

// dst[...] = value where mask (broadcast to dst's shape; everywhere when null); value is an element
// or an array of dst's shape and dtype. On a GPU, without a synchronisation.
void masked_fill_on_gpu(const Array& dst, const Array* mask, const MoveSource& value,
                        const char* op);

// coordinates[d, i] of indices[i] in `shape`; both int64 and contiguous.
void unravel_on_gpu(const Array& coordinates, const Array& indices, const Dims& shape,
                    const char* op);

void enumerate_mask(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::indexing
