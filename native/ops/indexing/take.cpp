#include "ops/indexing/take.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/indexing/mask.h"
#include "ops/indexing/move.h"

namespace gpk::ops {
namespace {

using namespace indexing;

using Kind = InvalidArgument::Kind;

Array checked_indices(const Array& x, const Array& indices, Kind kind, const char* op) {
  if (!(x.device() == indices.device()))
    throw InvalidArgument(
        cat(op, ": x is on ", to_string(x.device()), ", indices on ", to_string(indices.device())));
  if (indices.dtype() == DType::kBool && kind == Kind::kType)
    return reinterpret(indices, DType::kUInt8);
  if (!is_integer(indices.dtype()) || info(indices.dtype()).bits == 4)
    throw InvalidArgument(kind, cat(op, ": indices have dtype ", name(indices.dtype()),
                                    ", expected an integer dtype"));
  return indices;
}

void check_unpacked(const Array& x, const char* op) {
  if (info(x.dtype()).bits == 4)
    throw InvalidArgument(Kind::kType,
                          cat(op, ": ", name(x.dtype()), " shares bytes; cast it with astype"));
}

Array flat(const Array& x, const char* op) { return reshape(x, Dims{-1}, op); }

// The broadcast shape of both, axis by axis, that take_along_axis iterates over.
Dims along_shape(const Array& x, const Array& indices, int axis, const char* op) {
  if (x.ndim() != indices.ndim())
    throw InvalidArgument(cat(op, ": indices have shape ", to_string(indices.shape()),
                              ", expected as many dimensions as x with shape ",
                              to_string(x.shape())));
  Dims shape = indices.shape();
  for (int i = 0; i < x.ndim(); ++i) {
    if (i == axis || shape[i] == x.shape()[i]) continue;
    if (shape[i] != 1 && x.shape()[i] != 1)
      throw InvalidArgument(Kind::kIndex, cat(op, ": indices of shape ", to_string(indices.shape()),
                                              " could not be broadcast together with x of shape ",
                                              to_string(x.shape())));
    if (shape[i] == 1) shape[i] = x.shape()[i];
  }
  if (x.shape()[axis] == 0 && num_elements(shape, op) > 0)
    throw InvalidArgument(Kind::kIndex,
                          cat(op, ": indices are out of bounds for axis ", axis, " with size 0"));
  return shape;
}

WideLayout along_layout(const Array& x, const Array& indices, int axis, const Dims& shape) {
  WideLayout layout;
  layout.rank = shape.size();
  layout.num_indexes = 1;
  auto& index = layout.index[0];
  for (int i = 0; i < layout.rank; ++i) {
    layout.size[i] = shape[i];
    layout.total *= shape[i];
    if (i != axis && x.shape()[i] != 1) layout.a[i] = x.strides()[i];
    if (indices.shape()[i] != 1) index.stride[i] = indices.strides()[i];
  }
  index.data = address(indices);
  index.size = x.shape()[axis];
  index.step = x.strides()[axis];
  index.axis = axis;
  index.type = index_type(indices.dtype());
  return layout;
}

void put_along_on_gpu(const Array& x, const Array& indices, int axis, const Dims& shape,
                      const MoveSource& value, const char* op) {
  WideLayout layout = along_layout(x, indices, axis, shape);
  const Array* const arrays[] = {&indices};
  const auto* array = std::get_if<Array>(&value);
  if (array == nullptr) {
    move_on_gpu(true, layout, x, value, arrays, op);
    return;
  }
  const Array offsets = Array::empty(shape, DType::kInt64, x.device(), op);
  address_on_gpu(offsets, layout, 1, arrays, false, op);
  drop_duplicates(offsets, 0, 0, op);
  const Array nothing({}, {}, x.dtype(), x.buffer(), x.offset_elems());
  AxesLayout by_offset = make_axes(nothing, 0, shape, 0);
  add_index(by_offset, shape, offsets, 0, 1, 0);
  by_offset.layout.mode = IndexMode::kOffset;
  set_plain_side(by_offset.layout, array->strides());
  const Array* const list[] = {&offsets};
  move_on_gpu(true, by_offset.layout, x, value, list, op);
}

// `count` elements of values, repeated cyclically.
Array repeated_to(const Array& values, std::int64_t count, const char* op) {
  const Array line = flat(values, op);
  const std::int64_t size = line.size();
  if (size >= count) return slice_axis(line, 0, 0, count, 1);
  if (size == 1) return broadcast_to(line, Dims{count}, op);
  if (size == 0) throw InvalidArgument(cat(op, ": values is empty"));
  const Array table =
      Array::empty({ceil_div(count, size), size}, values.dtype(), values.device(), op);
  copy_into(table, line, op);
  return slice_axis(flat(table, op), 0, 0, count, 1);
}

IndexItem item_of(const Array& mask) { return {IndexItem::Kind::kMask, 0, 0, 0, &mask}; }

// Runs `body` on a flat view of x, or on a copy that is written back.
template <class Body>
void on_flat(const Array& x, const char* op, const Body& body) {
  if (const auto view = try_reshape(x, Dims{x.size()})) {
    body(*view);
    return;
  }
  const Array copied = copy_as(x, x.dtype(), op);
  body(*try_reshape(copied, Dims{x.size()}));
  copy_into(x, copied, op);
}

Array check_condition(const Array& condition, const Array& x, const char* op) {
  if (!(x.device() == condition.device()))
    throw InvalidArgument(cat(op, ": x is on ", to_string(x.device()), ", the condition on ",
                              to_string(condition.device())));
  return cast(condition, DType::kBool, op);
}

}  // namespace

Array take(const Array& x, const Array& given, std::optional<std::int64_t> axis, IndexMode mode,
           const std::optional<Array>& out) {
  constexpr const char* kOp = "take";
  const Array indices = checked_indices(x, given, Kind::kType, kOp);
  check_unpacked(x, kOp);
  const int at = axis ? normalize_axis(*axis, std::max(x.ndim(), 1), kOp) : 0;
  const Array view = axis && x.ndim() > 0 ? x : flat(x, kOp);
  return gather(view, {{indices, at, at}}, indices.shape(), at, mode, out, kOp);
}

Array take_along_axis(const Array& x, const Array& given, std::optional<std::int64_t> axis) {
  constexpr const char* kOp = "take_along_axis";
  const Array indices = checked_indices(x, given, Kind::kIndex, kOp);
  check_unpacked(x, kOp);
  if (!axis) {
    if (indices.ndim() != 1)
      throw InvalidArgument(
          cat(kOp, ": without an axis, indices must have one dimension, not ", indices.ndim()));
    return take_along_axis(flat(x, kOp), indices, 0);
  }
  const int at = normalize_axis(*axis, x.ndim(), kOp);
  const Dims shape = along_shape(x, indices, at, kOp);
  Array out = Array::empty(shape, x.dtype(), x.device(), kOp);
  if (!x.device().is_cuda()) {
    run_on_cpu({kOp, {x, indices}, {out}, {{"axis", Scalar(std::int64_t{at})}}});
    return out;
  }
  if (out.size() == 0) return out;
  WideLayout layout = along_layout(x, indices, at, shape);
  set_plain_side(layout, out.strides());
  const Array* const arrays[] = {&indices};
  move_on_gpu(false, layout, x, out, arrays, kOp);
  return out;
}

void put_along_axis(const Array& x, const Array& given, const AssignValue& values,
                    std::optional<std::int64_t> axis) {
  constexpr const char* kOp = "put_along_axis";
  Array indices = checked_indices(x, given, Kind::kIndex, kOp);
  check_unpacked(x, kOp);
  if (!axis) {
    on_flat(x, kOp, [&](const Array& line) { put_along_axis(line, indices, values, 0); });
    return;
  }
  const int at = normalize_axis(*axis, x.ndim(), kOp);
  const Dims shape = along_shape(x, indices, at, kOp);
  if (may_overlap(indices, x)) indices = copy_as(indices, indices.dtype(), kOp);
  AssignValue value = values;
  if (const auto* scalar = std::get_if<Scalar>(&values)) {
    value = scalar_for(*scalar, x.dtype(), kOp);
    to_bytes(std::get<Scalar>(value), x.dtype(), kOp);
  } else {
    const Array spread = broadcast_to(std::get<Array>(values), shape, kOp);
    if (!(spread.device() == x.device()))
      throw InvalidArgument(cat(kOp, ": x is on ", to_string(x.device()), ", values on ",
                                to_string(spread.device())));
    const Array same = cast(std::get<Array>(values), x.dtype(), kOp);
    value =
        broadcast_to(may_overlap(same, x) ? copy_as(same, same.dtype(), kOp) : same, shape, kOp);
  }
  const auto* array = std::get_if<Array>(&value);
  if (!x.device().is_cuda()) {
    const CpuArg source = array != nullptr ? CpuArg(*array) : CpuArg(std::get<Scalar>(value));
    run_on_cpu({kOp, {source, indices}, {x}, {{"axis", Scalar(std::int64_t{at})}}});
    return;
  }
  if (num_elements(shape, kOp) == 0) return;
  put_along_on_gpu(x, indices, at, shape,
                   array != nullptr ? MoveSource(*array)
                                    : MoveSource(to_bytes(std::get<Scalar>(value), x.dtype(), kOp)),
                   kOp);
}

void put(const Array& x, const Array& given, const AssignValue& values, IndexMode mode) {
  constexpr const char* kOp = "put";
  const Array indices = flat(checked_indices(x, given, Kind::kType, kOp), kOp);
  check_unpacked(x, kOp);
  AssignValue value = values;
  if (const auto* array = std::get_if<Array>(&values)) {
    if (array->size() == 0) return;
    value = repeated_to(*array, indices.size(), kOp);
  }
  on_flat(x, kOp, [&](const Array& line) {
    scatter(line, {{indices, 0, 0}}, indices.shape(), 0, mode, value, kOp);
  });
}

Array compress(const Array& condition, const Array& x, std::optional<std::int64_t> axis,
               const std::optional<Array>& out) {
  constexpr const char* kOp = "compress";
  if (condition.ndim() != 1)
    throw InvalidArgument(
        cat(kOp, ": condition must be a 1-d array, it has shape ", to_string(condition.shape())));
  check_unpacked(x, kOp);
  const int at = axis ? normalize_axis(*axis, std::max(x.ndim(), 1), kOp) : 0;
  const Array view = axis && x.ndim() > 0 ? x : flat(x, kOp);
  const CountedMask counted = count_true(check_condition(condition, x, kOp), kOp);
  const Array positions = flat(true_coordinates(counted, kOp), kOp);
  return gather(view, {{positions, at, at}}, positions.shape(), at, IndexMode::kRaise, out, kOp);
}

Array extract(const Array& condition, const Array& x) {
  constexpr const char* kOp = "extract";
  const Array mask = flat(check_condition(condition, x, kOp), kOp);
  const Array line = flat(x, kOp);
  if (mask.size() == line.size()) {
    const IndexItem item = item_of(mask);
    return getitem(line, {&item, 1});
  }
  const Array positions = flat(nonzero(mask, kOp), kOp);
  return gather(line, {{positions, 0, 0}}, positions.shape(), 0, IndexMode::kRaise, std::nullopt,
                kOp);
}

void place(const Array& x, const Array& condition, const Array& values) {
  constexpr const char* kOp = "place";
  const Array mask = check_condition(condition, x, kOp);
  if (mask.size() != x.size())
    throw InvalidArgument(cat(kOp, ": the mask has shape ", to_string(mask.shape()), ", x has ",
                              to_string(x.shape())));
  const Array bits = flat(mask, kOp);
  const std::int64_t count = count_true(bits, kOp).count;
  if (count == 0) return;
  if (values.size() == 0) throw InvalidArgument(cat(kOp, ": cannot insert from an empty array"));
  const Array source = repeated_to(values, count, kOp);
  on_flat(x, kOp, [&](const Array& line) {
    const IndexItem item = item_of(bits);
    setitem(line, {&item, 1}, source);
  });
}

Array nonzero(const Array& x, const char* op) {
  if (x.ndim() == 0)
    throw InvalidArgument(cat(op, ": not possible on 0-d arrays; give it a dimension first"));
  return true_coordinates(count_true(cast(x, DType::kBool, op), op), op);
}

Array unravel_index(const Array& given, const Dims& shape) {
  constexpr const char* kOp = "unravel_index";
  const Array indices =
      contiguous(cast(checked_indices(given, given, Kind::kType, kOp), DType::kInt64, kOp), kOp);
  std::int64_t sizes[kMaxRank + 1] = {shape.size()};
  for (int i = 0; i < std::min(indices.ndim(), kMaxRank); ++i) sizes[i + 1] = indices.shape()[i];
  Array out = Array::empty(
      Dims(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(indices.ndim()) + 1)),
      DType::kInt64, given.device(), kOp);
  if (num_elements(shape, kOp) == 0 && indices.size() > 0)
    throw InvalidArgument(cat(kOp, ": shape ", to_string(shape), " has no elements"));
  if (!given.device().is_cuda()) {
    run_on_cpu({kOp, {indices}, {out}, {{"shape", shape}}});
  } else {
    unravel_on_gpu(out, indices, shape, kOp);
  }
  return out;
}

Array ravel_multi_index(const std::vector<Array>& given, const Dims& shape, IndexMode mode) {
  constexpr const char* kOp = "ravel_multi_index";
  if (given.empty() || static_cast<int>(given.size()) != shape.size())
    throw InvalidArgument(
        cat(kOp, ": ", given.size(), " index arrays for ", shape.size(), " dimensions"));
  num_elements(shape, kOp);
  Dims middle;
  std::vector<Array> indices;
  for (const Array& array : given) {
    indices.push_back(checked_indices(given[0], array, Kind::kType, kOp));
    middle = broadcast_shapes(middle, array.shape(), kOp);
  }
  Array out = Array::empty(middle, DType::kInt64, given[0].device(), kOp);
  for (const std::int64_t size : shape)
    if (size == 0 && out.size() > 0)
      throw InvalidArgument(cat(kOp, ": shape ", to_string(shape), " has no elements"));
  if (!out.device().is_cuda()) {
    const char* how = mode == IndexMode::kWrap   ? "wrap"
                      : mode == IndexMode::kClip ? "clip"
                                                 : "raise";
    CpuCall call{kOp, {}, {out}, {{"shape", shape}, {"mode", std::string(how)}}};
    for (const Array& array : indices) call.args.emplace_back(array);
    run_on_cpu(std::move(call));
    return out;
  }
  const Dims steps = contiguous_strides(shape);
  const Array nothing({}, {}, DType::kInt64, out.buffer(), 0);
  for (int first = 0; first < shape.size(); first += 4) {
    AxesLayout axes = make_axes(nothing, 0, middle, 0);
    std::vector<const Array*> arrays;
    for (int k = first; k < std::min(first + 4, shape.size()); ++k) {
      add_index(axes, middle, indices[static_cast<std::size_t>(k)], shape[k], steps[k], -1);
      arrays.push_back(&indices[static_cast<std::size_t>(k)]);
    }
    axes.layout.mode = mode == IndexMode::kRaise ? IndexMode::kStrict : mode;
    address_on_gpu(out, axes.layout, 1, arrays, first > 0, kOp);
  }
  return out;
}

}  // namespace gpk::ops
