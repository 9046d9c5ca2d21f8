// Views: other shapes and strides over the same memory, never a copy. All throw InvalidArgument
// that starts with `op`. Four-bit types share bytes, so only whole arrays of them can be viewed:
// reshaped, but not sliced or permuted.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::inline core {

// Index in [0, ndim) for an axis in [-ndim, ndim), else kIndex (Python: an IndexError that is also
// a ValueError).
int normalize_axis(std::int64_t axis, int ndim, const char* op);

// `axes` normalised and checked for duplicates, in the order given.
Dims normalize_axes(const Dims& axes, int ndim, const char* op);

// Elements first, first + step, ... of one axis, `count` of them; all inside the axis.
Array slice_axis(const Array& array, int axis, std::int64_t first, std::int64_t count,
                 std::int64_t step);

// Axis i of the result is axis axes[i] of `array`; every axis once.
Array permute(const Array& array, const Dims& axes, const char* op);
// All axes reversed.
Array transpose(const Array& array, const char* op);

// Inserts an axis of size 1 at each position (in the result) of `axes`.
Array expand_dims(const Array& array, const Dims& axes, const char* op);
// Without the given axes, each of size 1.
Array squeeze(const Array& array, const Dims& axes, const char* op);

// NumPy's rules: axes aligned at the end, size 1 stretches (stride 0).
Array broadcast_to(const Array& array, const Dims& shape, const char* op);
// The common shape; throws with both shapes in the message.
Dims broadcast_shapes(const Dims& a, const Dims& b, const char* op);

// `shape` with one -1 filled in so that it has `size` elements.
Dims resolve_shape(const Dims& shape, std::int64_t size, const char* op);
// nullopt when the elements in C order need a copy. Sizes must agree.
std::optional<Array> try_reshape(const Array& array, const Dims& shape);

// Elements (i, i + offset) of two axes, as a last axis.
Array diagonal(const Array& array, std::int64_t offset, int axis1, int axis2, const char* op);

// Real or imaginary parts of a complex array.
Array complex_part(const Array& array, bool imaginary);

// The same bytes as another dtype of the same size.
Array reinterpret(const Array& array, DType dtype);

// False only when they share no byte.
bool may_overlap(const Array& a, const Array& b) noexcept;
// Elements coincide one by one in memory (for any dtypes of equal width).
bool same_place(const Array& a, const Array& b) noexcept;
// No gaps, no overlapping elements: C order after some permutation of the axes.
bool is_dense_permuted(const Array& array) noexcept;

}  // namespace gpk::inline core
