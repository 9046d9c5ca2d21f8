#include "ops/manipulation/axes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"

namespace gpk::ops {
namespace {

// Converts `value` from units of `from` bits to units of `to` bits.
std::int64_t rescale(std::int64_t value, int from, int to, const Array& x, DType dtype) {
  if (value * from % to != 0)
    throw InvalidArgument(cat("view: ", name(x.dtype()), " array of shape ", to_string(x.shape()),
                              " cannot be viewed as ", name(dtype),
                              ": its bytes do not divide into whole elements"));
  return value * from / to;
}

}  // namespace

Array flip(const Array& x, const std::optional<Dims>& axes) {
  Dims which = axes ? normalize_axes(*axes, x.ndim(), "flip") : Dims::filled(x.ndim(), 0);
  for (int i = 0; !axes && i < which.size(); ++i) which[i] = i;
  Array result = x;
  for (const std::int64_t axis : which) {
    const std::int64_t count = x.shape()[static_cast<int>(axis)];
    result = slice_axis(result, static_cast<int>(axis), count - 1, count, -1);
  }
  return result;
}

Array moveaxis(const Array& x, const Dims& source, const Dims& destination) {
  if (source.size() != destination.size())
    throw InvalidArgument(cat("moveaxis: source ", to_string(source), " and destination ",
                              to_string(destination), " must have the same number of axes"));
  const Dims from = normalize_axes(source, x.ndim(), "moveaxis");
  const Dims to = normalize_axes(destination, x.ndim(), "moveaxis");
  Dims order = Dims::filled(x.ndim(), -1);
  for (int i = 0; i < from.size(); ++i) order[static_cast<int>(to[i])] = from[i];
  std::int64_t next = 0;
  for (int i = 0; i < order.size(); ++i) {
    if (order[i] >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    order[i] = next++;
  }
  return permute(x, order, "moveaxis");
}

Array swapaxes(const Array& x, std::int64_t a, std::int64_t b, const char* op) {
  const int first = normalize_axis(a, x.ndim(), op);
  const int second = normalize_axis(b, x.ndim(), op);
  Dims order = Dims::filled(x.ndim(), 0);
  for (int i = 0; i < order.size(); ++i) order[i] = i;
  std::swap(order[first], order[second]);
  return permute(x, order, op);
}

Array view_as(const Array& x, DType dtype) {
  const int from = info(x.dtype()).bits;
  const int to = info(dtype).bits;
  if (from == to) return reinterpret(x, dtype);
  if (x.ndim() == 0)
    throw InvalidArgument(cat("view: a 0-d array of ", name(x.dtype()), " cannot be viewed as ",
                              name(dtype), ", which has another size"));
  const int last = x.ndim() - 1;
  if ((from < 8 || to < 8) && !x.is_contiguous())
    throw InvalidArgument(cat("view: only contiguous arrays can be viewed as ", name(dtype)));
  if (x.shape()[last] != 1 && x.strides()[last] != 1 && x.size() > 0)
    throw InvalidArgument(cat("view: the last axis must be contiguous to view ", name(x.dtype()),
                              " as ", name(dtype)));
  Dims shape = x.shape();
  shape[last] = rescale(shape[last], from, to, x, dtype);
  Dims strides = contiguous_strides(shape);
  if (!x.is_contiguous())
    for (int i = 0; i < last; ++i) strides[i] = rescale(x.strides()[i], from, to, x, dtype);
  return {std::move(shape), std::move(strides), dtype, x.buffer(),
          rescale(x.offset_elems(), from, to, x, dtype)};
}

}  // namespace gpk::ops
