#include "core/view.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace gpk::inline core {
namespace {

void check_not_packed(const Array& array, const char* op) {
  if (info(array.dtype()).bits == 4)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": ", name(array.dtype()),
                              " shares bytes and cannot be viewed in parts; cast it with astype"));
}

Dims with_size(int rank) { return Dims::filled(rank, 0); }

// First and one-past-last byte an array can touch.
std::pair<std::int64_t, std::int64_t> extent(const Array& array) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (int i = 0; i < array.ndim(); ++i) {
    const std::int64_t reach = (array.shape()[i] - 1) * array.strides()[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto base = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(array.data()));
  const auto item = static_cast<std::int64_t>(itemsize(array.dtype()));
  return {base + low * item, base + (high + 1) * item};
}

}  // namespace

int normalize_axis(std::int64_t axis, int ndim, const char* op) {
  if (axis < -ndim || axis >= ndim)
    throw InvalidArgument(
        InvalidArgument::Kind::kAxis,
        cat(op, ": axis ", axis, " is out of bounds for array of dimension ", ndim));
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

Dims normalize_axes(const Dims& axes, int ndim, const char* op) {
  Dims result = axes;
  std::uint64_t seen = 0;
  for (int i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis(axes[i], ndim, op);
    if ((seen >> axis & 1u) != 0)
      throw InvalidArgument(cat(op, ": axis ", axes[i], " is given twice in ", to_string(axes)));
    seen |= std::uint64_t{1} << axis;
    result[i] = axis;
  }
  return result;
}

Array slice_axis(const Array& array, int axis, std::int64_t first, std::int64_t count,
                 std::int64_t step) {
  check_not_packed(array, "slice");
  Dims shape = array.shape();
  Dims strides = array.strides();
  const std::int64_t offset = array.offset_elems() + (count > 0 ? first * strides[axis] : 0);
  shape[axis] = count;
  strides[axis] *= step;
  return {std::move(shape), std::move(strides), array.dtype(), array.buffer(), offset};
}

Array permute(const Array& array, const Dims& axes, const char* op) {
  if (axes.size() != array.ndim())
    throw InvalidArgument(cat(op, ": axes ", to_string(axes), " has ", axes.size(),
                              " entries, the array has shape ", to_string(array.shape())));
  const Dims order = normalize_axes(axes, array.ndim(), op);
  bool moved = false;
  for (int i = 0; i < order.size(); ++i) moved = moved || order[i] != i;
  if (moved) check_not_packed(array, op);
  Dims shape = with_size(array.ndim());
  Dims strides = with_size(array.ndim());
  for (int i = 0; i < order.size(); ++i) {
    shape[i] = array.shape()[static_cast<int>(order[i])];
    strides[i] = array.strides()[static_cast<int>(order[i])];
  }
  return {std::move(shape), std::move(strides), array.dtype(), array.buffer(),
          array.offset_elems()};
}

Array transpose(const Array& array, const char* op) {
  Dims axes = with_size(array.ndim());
  for (int i = 0; i < axes.size(); ++i) axes[i] = axes.size() - 1 - i;
  return permute(array, axes, op);
}

Array expand_dims(const Array& array, const Dims& axes, const char* op) {
  const int rank = array.ndim() + axes.size();
  if (rank > kMaxRank)
    throw InvalidArgument(cat(op, ": the result would have ", rank, " dimensions, at most ",
                              kMaxRank, " are supported"));
  const Dims at = normalize_axes(axes, rank, op);
  Dims shape = with_size(rank);
  Dims strides = with_size(rank);
  int from = 0;
  for (int i = 0; i < rank; ++i) {
    const bool is_new = std::find(at.begin(), at.end(), i) != at.end();
    shape[i] = is_new ? 1 : array.shape()[from];
    strides[i] = is_new ? 0 : array.strides()[from];
    if (!is_new) ++from;
  }
  return {std::move(shape), std::move(strides), array.dtype(), array.buffer(),
          array.offset_elems()};
}

Array squeeze(const Array& array, const Dims& axes, const char* op) {
  const Dims at = normalize_axes(axes, array.ndim(), op);
  for (int i = 0; i < at.size(); ++i)
    if (array.shape()[static_cast<int>(at[i])] != 1)
      throw InvalidArgument(cat(op, ": axis ", axes[i], " of shape ", to_string(array.shape()),
                                " does not have size 1"));
  Dims shape = with_size(array.ndim() - at.size());
  Dims strides = shape;
  int to = 0;
  for (int i = 0; i < array.ndim(); ++i) {
    if (std::find(at.begin(), at.end(), i) != at.end()) continue;
    shape[to] = array.shape()[i];
    strides[to++] = array.strides()[i];
  }
  return {std::move(shape), std::move(strides), array.dtype(), array.buffer(),
          array.offset_elems()};
}

Array broadcast_to(const Array& array, const Dims& shape, const char* op) {
  if (array.shape() == shape) return array;
  num_elements(shape, op);
  const int lead = shape.size() - array.ndim();
  bool fits = lead >= 0;
  Dims strides = with_size(shape.size());
  for (int i = 0; fits && i < array.ndim(); ++i) {
    const bool stretched = array.shape()[i] == 1 && shape[lead + i] != 1;
    fits = stretched || array.shape()[i] == shape[lead + i];
    strides[lead + i] = stretched ? 0 : array.strides()[i];
  }
  if (!fits)
    throw InvalidArgument(cat(op, ": shape ", to_string(array.shape()),
                              " cannot be broadcast to shape ", to_string(shape)));
  check_not_packed(array, op);
  return {shape, std::move(strides), array.dtype(), array.buffer(), array.offset_elems()};
}

Dims broadcast_shapes(const Dims& a, const Dims& b, const char* op) {
  if (a == b) return a;
  const int rank = std::max(a.size(), b.size());
  Dims result = with_size(rank);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw InvalidArgument(cat(op, ": operands could not be broadcast together with shapes ",
                                to_string(a), " and ", to_string(b)));
    result[rank - i] = x == 1 ? y : x;
  }
  return result;
}

Dims resolve_shape(const Dims& shape, std::int64_t size, const char* op) {
  int open = -1;
  std::int64_t known = 1;
  bool overflow = false;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (open >= 0)
        throw InvalidArgument(cat(op, ": shape ", to_string(shape), " has more than one -1"));
      open = i;
    } else if (shape[i] < 0) {
      throw InvalidArgument(cat(op, ": shape ", to_string(shape), " has a negative size"));
    } else {
      overflow = overflow || __builtin_mul_overflow(known, shape[i], &known);
    }
  }
  Dims result = shape;
  const bool divides = !overflow && known != 0 && size % known == 0;
  if (open >= 0 && divides) result[open] = size / known;
  const bool fits = open >= 0 ? divides : !overflow && known == size;
  if (!fits)
    throw InvalidArgument(
        cat(op, ": cannot reshape array of size ", size, " into shape ", to_string(shape)));
  return result;
}

std::optional<Array> try_reshape(const Array& array, const Dims& shape) {
  const auto make = [&](Dims strides) {
    return Array(shape, std::move(strides), array.dtype(), array.buffer(), array.offset_elems());
  };
  if (array.is_contiguous()) return make(contiguous_strides(shape));
  // Groups of axes with equal products on both sides; within a group the old axes must be
  // mergeable.
  Dims old_shape = with_size(array.ndim());
  Dims old_strides = old_shape;
  int rank = 0;
  for (int i = 0; i < array.ndim(); ++i) {
    if (array.shape()[i] == 1) continue;
    old_shape[rank] = array.shape()[i];
    old_strides[rank++] = array.strides()[i];
  }
  Dims strides = Dims::filled(shape.size(), 1);
  int from = 0;
  int to = 0;
  while (from < rank && to < shape.size()) {
    std::int64_t have = old_shape[from];
    std::int64_t want = shape[to];
    int from_end = from + 1;
    int to_end = to + 1;
    while (have != want) {
      if (have < want) {
        have *= old_shape[from_end++];
      } else {
        want *= shape[to_end++];
      }
    }
    for (int i = from; i + 1 < from_end; ++i)
      if (old_strides[i] != old_shape[i + 1] * old_strides[i + 1]) return std::nullopt;
    std::int64_t step = old_strides[from_end - 1];
    for (int i = to_end - 1; i >= to; --i) {
      strides[i] = step;
      step *= shape[i];
    }
    from = from_end;
    to = to_end;
  }
  return make(std::move(strides));
}

Array diagonal(const Array& array, std::int64_t offset, int axis1, int axis2, const char* op) {
  check_not_packed(array, op);
  Dims rest = with_size(array.ndim() - 1);
  Dims strides = rest;
  int to = 0;
  for (int i = 0; i < array.ndim(); ++i) {
    if (i == axis1 || i == axis2) continue;
    rest[to] = array.shape()[i];
    strides[to++] = array.strides()[i];
  }
  const std::int64_t rows = array.shape()[axis1] - std::max<std::int64_t>(-offset, 0);
  const std::int64_t columns = array.shape()[axis2] - std::max<std::int64_t>(offset, 0);
  const std::int64_t count = std::max<std::int64_t>(std::min(rows, columns), 0);
  rest[to] = count;
  strides[to] = array.strides()[axis1] + array.strides()[axis2];
  const std::int64_t start =
      offset >= 0 ? offset * array.strides()[axis2] : -offset * array.strides()[axis1];
  return {std::move(rest), std::move(strides), array.dtype(), array.buffer(),
          array.offset_elems() + (count > 0 ? start : 0)};
}

Array complex_part(const Array& array, bool imaginary) {
  Dims strides = array.strides();
  for (int i = 0; i < strides.size(); ++i) strides[i] *= 2;
  const DType part = array.dtype() == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  return {array.shape(), std::move(strides), part, array.buffer(),
          array.offset_elems() * 2 + (imaginary ? 1 : 0)};
}

Array reinterpret(const Array& array, DType dtype) {
  return {array.shape(), array.strides(), dtype, array.buffer(), array.offset_elems()};
}

bool may_overlap(const Array& a, const Array& b) noexcept {
  if (!(a.device() == b.device()) || a.size() == 0 || b.size() == 0) return false;
  const auto [a_low, a_high] = extent(a);
  const auto [b_low, b_high] = extent(b);
  return a_low < b_high && b_low < a_high;
}

bool same_place(const Array& a, const Array& b) noexcept {
  if (a.data() != b.data() || info(a.dtype()).bits != info(b.dtype()).bits ||
      !(a.shape() == b.shape()))
    return false;
  for (int i = 0; i < a.ndim(); ++i)
    if (a.shape()[i] != 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
}

bool is_dense_permuted(const Array& array) noexcept {
  int order[kMaxRank];
  int count = 0;
  for (int i = 0; i < array.ndim(); ++i)
    if (array.shape()[i] != 1) order[count++] = i;
  std::sort(order, order + count,
            [&](int a, int b) { return array.strides()[a] < array.strides()[b]; });
  std::int64_t expected = 1;
  for (int i = 0; i < count; ++i) {
    if (array.strides()[order[i]] != expected) return false;
    expected *= array.shape()[order[i]];
  }
  return true;
}

}  // namespace gpk::inline core
