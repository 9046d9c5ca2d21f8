// a[key] and a[key] = value, by NumPy's rules.
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "core/array.h"
#include "core/scalar.h"
#include "ops/indexing/key.h"
#include "ops/indexing/layout.h"

namespace gpk::ops {

using AssignValue = std::variant<Array, Scalar>;

// A view for keys of integers, slices, newaxis and ellipsis; a new array for keys with arrays. A
// mask's count is read back, everything else is asynchronous. Out-of-bounds index values: kIndex,
// on a GPU at the next synchronisation.
Array getitem(const Array& array, std::span<const IndexItem> items);

// The value is broadcast to the selection and cast as in an assignment: floats are truncated to
// integers. Of several values for one element the last one in C order wins, deterministically.
// Masks are read back only where the value has one element per true element of the mask.
void setitem(const Array& array, std::span<const IndexItem> items, const AssignValue& value);

namespace indexing {

// The same for one selection, shared with take and put: out[...] or a new array; view[...] = value.
Array gather(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle, int at,
             IndexMode mode, const std::optional<Array>& out, const char* op);
void scatter(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle, int at,
             IndexMode mode, const AssignValue& value, const char* op);

// A number converted as an assignment to `dtype` does it: floats truncated to integers, bools by
// truth value. Throws kType for a complex number into a real dtype, kOverflow, and kValue for NaN
// to an integer.
Scalar scalar_for(const Scalar& scalar, DType dtype, const char* op);

}  // namespace indexing

}  // namespace gpk::ops
