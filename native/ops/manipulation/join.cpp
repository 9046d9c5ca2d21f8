#include "ops/manipulation/join.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/result_type.h"
#include "core/view.h"
#include "ops/elementwise/concat.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"

namespace gpk::ops {
namespace {

void check_arrays(std::span<const Array> arrays, const char* op) {
  if (arrays.empty()) throw InvalidArgument(cat(op, ": at least one array is needed, got none"));
  for (const Array& array : arrays)
    if (!(array.device() == arrays[0].device()))
      throw InvalidArgument(cat(op, ": the arrays are on ", to_string(arrays[0].device()), " and ",
                                to_string(array.device())));
}

DType common_dtype(std::span<const Array> arrays, const char* op) {
  std::vector<DType> dtypes;
  dtypes.reserve(arrays.size());
  for (const Array& array : arrays) dtypes.push_back(array.dtype());
  return result_type(dtypes, {}, op);
}

// A new array, or the caller's `out` after checking it.
Array make_result(const Dims& shape, DType natural, Device device, const JoinOptions& options,
                  const char* op) {
  if (options.dtype && !can_cast_same_kind(natural, *options.dtype))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": dtype is ", name(*options.dtype), ", which the result's ", name(natural),
            " cannot be cast to within its kind; astype() the arrays first"));
  if (!options.out) return Array::empty(shape, options.dtype.value_or(natural), device, op);
  if (options.dtype)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": dtype and out cannot both be given"));
  check_out(*options.out, shape, natural, device, op);
  return *options.out;
}

// Shape of the result, after checking that all axes but one agree.
Dims check_concat(std::span<const Array> arrays, int axis, const char* op) {
  Dims shape = arrays[0].shape();
  for (std::size_t n = 1; n < arrays.size(); ++n) {
    const Dims& other = arrays[n].shape();
    bool fits = other.size() == shape.size();
    for (int i = 0; fits && i < shape.size(); ++i) fits = i == axis || other[i] == shape[i];
    if (!fits)
      throw InvalidArgument(cat(op, ": array 0 has shape ", to_string(arrays[0].shape()),
                                ", array ", n, " has ", to_string(other),
                                "; they may differ along axis ", axis, " only"));
    if (__builtin_add_overflow(shape[axis], other[axis], &shape[axis]))
      throw InvalidArgument(cat(op, ": the result has more than 2**63 - 1 elements"));
  }
  return shape;
}

}  // namespace

Array concat(std::span<const Array> arrays, std::optional<std::int64_t> axis,
             const JoinOptions& options, const char* op) {
  check_arrays(arrays, op);
  if (!axis) {
    std::vector<Array> flat;
    flat.reserve(arrays.size());
    for (const Array& array : arrays) flat.push_back(reshape(array, {-1}, op));
    return concat(flat, 0, options, op);
  }
  for (const Array& array : arrays)
    if (array.ndim() == 0)
      throw InvalidArgument(cat(op, ": zero-dimensional arrays cannot be joined; use stack"));
  const int along = normalize_axis(*axis, arrays[0].ndim(), op);
  const Dims shape = check_concat(arrays, along, op);
  Array out = make_result(shape, common_dtype(arrays, op), arrays[0].device(), options, op);
  if (elementwise::concat_copy(out, arrays, along)) return out;
  std::int64_t at = 0;
  for (const Array& array : arrays) {
    const std::int64_t count = array.shape()[along];
    if (count > 0) copy_into(slice_axis(out, along, at, count, 1), array, op);
    at += count;
  }
  return out;
}

Array stack(std::span<const Array> arrays, std::int64_t axis, const JoinOptions& options,
            const char* op) {
  check_arrays(arrays, op);
  for (std::size_t n = 1; n < arrays.size(); ++n)
    if (!(arrays[n].shape() == arrays[0].shape()))
      throw InvalidArgument(cat(op, ": array 0 has shape ", to_string(arrays[0].shape()),
                                ", array ", n, " has ", to_string(arrays[n].shape()),
                                "; all must be equal"));
  std::vector<Array> expanded;
  expanded.reserve(arrays.size());
  for (const Array& array : arrays) expanded.push_back(expand_dims(array, {axis}, op));
  return concat(expanded, axis, options, op);
}

}  // namespace gpk::ops
