// Elements by position along an axis: take, put and their relatives.
#pragma once

#include <optional>

#include "core/array.h"
#include "ops/indexing/getitem.h"

namespace gpk::ops {

// The elements of x at positions `indices` along the axis; without an axis, of x in C order. `out`
// has the result's shape and a dtype that x casts to within its kind.
Array take(const Array& x, const Array& indices, std::optional<std::int64_t> axis, IndexMode mode,
           const std::optional<Array>& out);

// out[i, j, ...] = x[indices[i, j, ...], j, ...] for axis 0 and so on; other axes broadcast.
Array take_along_axis(const Array& x, const Array& indices, std::optional<std::int64_t> axis);
// x[indices[i, j, ...], j, ...] = values[i, j, ...]; the last of several values wins.
void put_along_axis(const Array& x, const Array& indices, const AssignValue& values,
                    std::optional<std::int64_t> axis);

// x.flat[indices] = values, repeated as needed; the last of several values wins.
void put(const Array& x, const Array& indices, const AssignValue& values, IndexMode mode);

// x where condition, a list of bools (not longer than the axis), is true along the axis.
Array compress(const Array& condition, const Array& x, std::optional<std::int64_t> axis,
               const std::optional<Array>& out);
// Elements of x where condition, of the same size, is true, in C order.
Array extract(const Array& condition, const Array& x);
// x[mask] = values, repeated as needed.
void place(const Array& x, const Array& mask, const Array& values);

// Coordinates of nonzero elements in C order: int64, shape (ndim, count).
Array nonzero(const Array& x, const char* op = "nonzero");

// Coordinates of positions in an array of `shape`: int64, shape (len(shape), *indices.shape).
Array unravel_index(const Array& indices, const Dims& shape);
// The inverse. `indices`: one integer array per axis, broadcast together.
Array ravel_multi_index(const std::vector<Array>& indices, const Dims& shape, IndexMode mode);

}  // namespace gpk::ops
