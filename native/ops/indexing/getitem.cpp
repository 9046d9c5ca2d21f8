#include "ops/indexing/getitem.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/indexing/mask.h"
#include "ops/indexing/move.h"
#include "ops/output.h"

namespace gpk::ops {
namespace {

using namespace indexing;

const char* mode_name(IndexMode mode) {
  if (mode == IndexMode::kWrap) return "wrap";
  return mode == IndexMode::kClip ? "clip" : "raise";
}

// Axes of size 0 have no valid index, whatever the values are.
void check_sizes(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                 const char* op) {
  if (num_elements(middle, op) == 0) return;
  for (const AxisIndex& index : indexes)
    if (view.shape()[index.axis] == 0)
      throw InvalidArgument(
          InvalidArgument::Kind::kIndex,
          cat(op, ": indices are out of bounds for axis ", index.source_axis, " with size 0"));
}

CpuCall cpu_call(const char* op, CpuArg first, const std::vector<AxisIndex>& indexes,
                 const Dims& middle, int at, IndexMode mode, const Array& out) {
  const int count = static_cast<int>(indexes.size());
  CpuCall call{op, {std::move(first)}, {out}};
  Dims axes = Dims::filled(count, 0);
  Dims names = axes;
  for (int i = 0; i < count; ++i) {
    const AxisIndex& index = indexes[static_cast<std::size_t>(i)];
    call.args.emplace_back(index.array);
    axes[i] = index.axis;
    names[i] = index.source_axis;
  }
  call.options = {{"axes", axes},
                  {"names", names},
                  {"shape", middle},
                  {"at", Scalar(std::int64_t{at})},
                  {"mode", std::string(mode_name(mode))}};
  return call;
}

bool overlaps(const Array& array, const std::vector<AxisIndex>& indexes) {
  for (const AxisIndex& index : indexes)
    if (may_overlap(array, index.array)) return true;
  return false;
}

// Replaces masks by integer arrays, one per axis of each mask.
void expand_masks(Selection& s, const char* op) {
  for (const AxisMask& use : s.masks) {
    const Array coordinates = true_coordinates(count_true(use.mask, op), op);
    const std::int64_t count = coordinates.shape()[1];
    for (int i = 0; i < use.mask.ndim(); ++i)
      s.indexes.push_back({Array(Dims{count}, Dims{1}, DType::kInt64, coordinates.buffer(),
                                 std::int64_t{i} * count),
                           use.axis + i, use.source_axis + i});
  }
  s.masks.clear();
}

bool single_mask(const Selection& s) {
  return s.masks.size() == 1 && s.indexes.empty() && s.extra.empty();
}

std::uint32_t mask_axes(const AxisMask& use) {
  std::uint32_t picked = 0;
  for (int i = 0; i < use.mask.ndim(); ++i) picked |= 1u << (use.axis + i);
  return picked;
}

// The layout of view[mask] against `plain` (gather: the result, scatter: the value): offsets
// computed from the mask replace an index.
void move_by_mask(bool scatter_it, const Selection& s, const CountedMask& counted,
                  const MoveSource& plain, const char* op) {
  const AxisMask& use = s.masks[0];
  const Dims middle{counted.count};
  AxesLayout axes = make_axes(s.view, mask_axes(use), middle, s.at);
  const std::int64_t* strides = s.view.strides().data() + use.axis;
  std::int64_t step = 0;  // divides all offsets
  for (int i = 0; i < use.mask.ndim(); ++i) step = std::gcd(step, strides[i]);
  const Array line({counted.count}, {1}, DType::kInt64, counted.mask.buffer(), 0);
  add_index(axes, middle, line, 0, step, 0);
  WideLayout& layout = axes.layout;
  layout.mode = IndexMode::kOffset;
  const auto* array = std::get_if<Array>(&plain);
  if (array != nullptr) set_plain_side(layout, array->strides());
  collapse(layout);
  const std::size_t item = itemsize(s.view.dtype());
  const std::size_t word = widen(
      layout, item, reinterpret_cast<std::uintptr_t>(s.view.data()),
      array == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(array->data()), array == nullptr);
  const Array offsets = true_offsets(counted, {strides, static_cast<std::size_t>(use.mask.ndim())},
                                     static_cast<std::int64_t>(word / item), op);
  layout.index[0].data = address(offsets);
  layout.index[0].step = 1;
  const Array* const arrays[] = {&offsets};
  launch_move(scatter_it, layout, word, s.view, plain, arrays, op);
}

Array getitem_by_mask(const Selection& s) {
  constexpr const char* kOp = "getitem";
  const AxisMask& use = s.masks[0];
  const CountedMask counted = count_true(use.mask, kOp);
  Array out =
      Array::empty(result_shape(s.view.shape(), mask_axes(use), Dims{counted.count}, s.at, kOp),
                   s.view.dtype(), s.view.device(), kOp);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    run_on_cpu({"masked_select",
                {s.view, counted.mask},
                {out},
                {{"axis", Scalar(std::int64_t{use.axis})}, {"at", Scalar(std::int64_t{s.at})}}});
  } else if (use.mask.ndim() == s.view.ndim()) {
    compact_on_gpu(out, s.view, counted);
  } else {
    move_by_mask(false, s, counted, out, kOp);
  }
  return out;
}

// NumPy lets a value have more axes than the target when the first ones have size 1.
Array without_leading_ones(const Array& value, int rank) {
  int drop = 0;
  while (value.ndim() - drop > rank && value.shape()[drop] == 1) ++drop;
  if (drop == 0) return value;
  Dims axes = Dims::filled(drop, 0);
  for (int i = 0; i < drop; ++i) axes[i] = i;
  return squeeze(value, axes, "setitem");
}

bool broadcasts(const Dims& from, const Dims& to) {
  const int lead = to.size() - from.size();
  if (lead < 0) return false;
  for (int i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != to[lead + i]) return false;
  return true;
}

// Numbers cannot be converted to storage types directly: go through an array, which is cast.
AssignValue storable(const AssignValue& value, const Array& target, const char* op) {
  const auto* scalar = std::get_if<Scalar>(&value);
  if (scalar == nullptr || !is_storage_only(target.dtype())) return value;
  const Scalar number = scalar_for(*scalar, DType::kFloat32, op);
  return full({}, number, DType::kFloat32, target.device(), op);
}

void assign(const Array& view, const AssignValue& value, const char* op) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    fill(view, scalar_for(*scalar, view.dtype(), op), op);
    return;
  }
  const auto& given = std::get<Array>(value);
  check_device(view, "the array", given.device(), "the value", op);
  if (view.dtype() == given.dtype() && view.shape() == given.shape() && same_place(view, given))
    return;  // the last step of a[key] += b
  const Array array = without_leading_ones(given, view.ndim());
  if (!broadcasts(array.shape(), view.shape()))
    throw InvalidArgument(cat(op, ": could not broadcast input array from shape ",
                              to_string(given.shape()), " into shape ", to_string(view.shape())));
  copy_into(view, array, op);
}

// The value in the target's dtype, in memory that does not overlap the target. Broadcast by the
// caller.
Array prepared(const Array& value, const Array& target, const char* op) {
  const Array same = cast(value, target.dtype(), op);
  return may_overlap(same, target) ? copy_as(same, same.dtype(), op) : same;
}

// A value for view[mask], broadcast over the view's own axes, where it does not vary along the
// mask's axis; else nullopt.
std::optional<Array> value_over_view(const Selection& s, const Array& value, const char* op) {
  const AxisMask& use = s.masks[0];
  const int num_free = s.view.ndim() - use.mask.ndim();
  const int behind = num_free - s.at;  // free axes after the mask's, in the result
  if (value.ndim() > num_free + 1) return std::nullopt;
  if (value.ndim() > behind && value.shape()[value.ndim() - 1 - behind] != 1) return std::nullopt;
  const Dims line = result_shape(s.view.shape(), mask_axes(use), Dims{1}, s.at, op);
  if (!broadcasts(value.shape(), line)) return std::nullopt;
  const Array spread = broadcast_to(value, line, op);
  Dims strides = Dims::filled(s.view.ndim(), 0);
  int from = 0;
  for (int i = 0; i < s.view.ndim(); ++i) {
    if ((mask_axes(use) >> i & 1u) != 0) continue;
    if (from == s.at) ++from;  // the mask's axis
    strides[i] = spread.strides()[from++];
  }
  return Array(s.view.shape(), std::move(strides), value.dtype(), value.buffer(),
               value.offset_elems());
}

// The mask, with axes of size 1 for the view's other axes.
Array mask_over_view(const Selection& s) {
  const AxisMask& use = s.masks[0];
  Dims shape = Dims::filled(s.view.ndim(), 1);
  Dims strides = Dims::filled(s.view.ndim(), 0);
  for (int i = 0; i < use.mask.ndim(); ++i) {
    shape[use.axis + i] = use.mask.shape()[i];
    strides[use.axis + i] = use.mask.strides()[i];
  }
  return {std::move(shape), std::move(strides), DType::kBool, use.mask.buffer(),
          use.mask.offset_elems()};
}

void masked_fill(const Selection& s, const AssignValue& value, const char* op) {
  Array mask = mask_over_view(s);
  if (may_overlap(mask, s.view)) mask = copy_as(mask, DType::kBool, op);
  const auto* array = std::get_if<Array>(&value);
  if (s.view.device().is_cuda()) {
    const MoveSource source =
        array != nullptr ? MoveSource(*array)
                         : MoveSource(to_bytes(std::get<Scalar>(value), s.view.dtype(), op));
    masked_fill_on_gpu(s.view, &mask, source, op);
    return;
  }
  run_on_cpu({"masked_fill",
              {array != nullptr ? CpuArg(*array) : CpuArg(std::get<Scalar>(value)), mask},
              {s.view}});
}

void check_value(const Array& value, const Dims& shape, const char* op) {
  if (!broadcasts(value.shape(), shape))
    throw InvalidArgument(
        cat(op, ": shape mismatch: value array of shape ", to_string(value.shape()),
            " could not be broadcast to indexing result of shape ", to_string(shape)));
}

// view[mask] = array with one value per true element.
void setitem_by_mask(Selection s, const Array& value, const char* op) {
  const AxisMask& use = s.masks[0];
  const CountedMask counted = count_true(use.mask, op);
  const Dims shape = result_shape(s.view.shape(), mask_axes(use), Dims{counted.count}, s.at, op);
  if (s.view.ndim() == use.mask.ndim() && value.ndim() == 1 && value.size() != counted.count)
    throw InvalidArgument(cat(op, ": boolean array indexing assignment cannot assign ",
                              value.size(), " input values to the ", counted.count,
                              " output values where the mask is true"));
  check_value(value, shape, op);
  if (num_elements(shape, op) == 0) return;
  if (!s.view.device().is_cuda()) {
    expand_masks(s, op);
    scatter(s.view, s.indexes, Dims{counted.count}, s.at, IndexMode::kRaise, value, op);
    return;
  }
  const Array source = broadcast_to(prepared(value, s.view, op), shape, op);
  move_by_mask(true, s, counted, source, op);
}

}  // namespace

Scalar indexing::scalar_for(const Scalar& scalar, DType dtype, const char* op) {
  using Error = InvalidArgument::Kind;
  if (dtype == DType::kBool)
    return std::visit([](auto value) { return Scalar(value != decltype(value){}); }, scalar);
  if (is_complex(dtype)) return scalar;
  if (std::holds_alternative<std::complex<double>>(scalar))
    throw InvalidArgument(Error::kType, cat(op, ": ", gpk::to_string(scalar),
                                            " is complex, the array has dtype ", name(dtype)));
  const auto* number = std::get_if<double>(&scalar);
  if (number == nullptr || !is_integer(dtype)) return scalar;
  if (std::isnan(*number)) throw InvalidArgument(cat(op, ": cannot convert float NaN to integer"));
  const double whole = std::trunc(*number);
  if (whole >= -0x1p63 && whole < 0x1p63) return Scalar(static_cast<std::int64_t>(whole));
  if (whole > 0 && whole < 0x1p64) return Scalar(static_cast<std::uint64_t>(whole));
  throw InvalidArgument(Error::kOverflow,
                        cat(op, ": ", gpk::to_string(scalar), " does not fit in ", name(dtype)));
}

Array indexing::gather(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                       int at, IndexMode mode, const std::optional<Array>& out, const char* op) {
  check_sizes(view, indexes, middle, op);
  const Dims shape = result_shape(view.shape(), picked_axes(indexes), middle, at, op);
  if (out) check_out(*out, shape, view.dtype(), view.device(), op);
  const bool direct =
      out && out->dtype() == view.dtype() && !may_overlap(*out, view) && !overlaps(*out, indexes);
  Array result = direct ? *out : Array::empty(shape, view.dtype(), view.device(), op);
  if (view.device().is_cuda()) {
    gather_on_gpu(result, view, indexes, middle, at, mode, op);
  } else {
    run_on_cpu(cpu_call(op, view, indexes, middle, at, mode, result));
  }
  if (!out || direct) return result;
  copy_into(*out, result, op);
  return *out;
}

void indexing::scatter(const Array& view, const std::vector<AxisIndex>& given, const Dims& middle,
                       int at, IndexMode mode, const AssignValue& value, const char* op) {
  check_sizes(view, given, middle, op);
  const Dims shape = result_shape(view.shape(), picked_axes(given), middle, at, op);
  std::vector<AxisIndex> indexes = given;
  for (AxisIndex& index : indexes)
    if (may_overlap(index.array, view)) index.array = copy_as(index.array, index.array.dtype(), op);
  AssignValue source = value;
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    source = scalar_for(*scalar, view.dtype(), op);
    to_bytes(std::get<Scalar>(source), view.dtype(), op);
  } else {
    const auto& array = std::get<Array>(value);
    check_device(view, "the array", array.device(), "the value", op);
    const Array short_value = without_leading_ones(array, shape.size());
    check_value(short_value, shape, op);
    source = broadcast_to(prepared(short_value, view, op), shape, op);
  }
  const auto* array = std::get_if<Array>(&source);
  if (!view.device().is_cuda()) {
    run_on_cpu(cpu_call(op, array != nullptr ? CpuArg(*array) : CpuArg(std::get<Scalar>(source)),
                        indexes, middle, at, mode, view));
    return;
  }
  if (num_elements(shape, op) == 0) return;
  scatter_on_gpu(view, indexes, middle, at, mode,
                 array != nullptr
                     ? MoveSource(*array)
                     : MoveSource(to_bytes(std::get<Scalar>(source), view.dtype(), op)),
                 op);
}

Array getitem(const Array& array, std::span<const IndexItem> items) {
  Selection s = select(array, items, "getitem");
  if (s.basic()) return std::move(s.view);
  if (single_mask(s)) return getitem_by_mask(s);
  expand_masks(s, "getitem");
  const Dims middle = broadcast_indexes(s.indexes, s.extra, "getitem");
  return gather(s.view, s.indexes, middle, s.at, IndexMode::kRaise, std::nullopt, "getitem");
}

void setitem(const Array& array, std::span<const IndexItem> items, const AssignValue& assigned) {
  constexpr const char* kOp = "setitem";
  check_writable(array, kOp, "the array");
  Selection s = select(array, items, kOp);
  const AssignValue value = storable(assigned, s.view, kOp);
  if (s.basic()) {
    assign(s.view, value, kOp);
    return;
  }
  if (single_mask(s)) {
    if (const auto* scalar = std::get_if<Scalar>(&value)) {
      const Scalar number = scalar_for(*scalar, s.view.dtype(), kOp);
      to_bytes(number, s.view.dtype(), kOp);
      masked_fill(s, number, kOp);
      return;
    }
    const auto& given = std::get<Array>(value);
    check_device(s.view, "the array", given.device(), "the value", kOp);
    if (items.size() == 1 && s.masks[0].mask.ndim() == array.ndim() && given.ndim() > 1)
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat(kOp,
                                ": boolean array indexing assignment requires a 0 or "
                                "1-dimensional input, input has ",
                                given.ndim(), " dimensions"));
    const Array source = without_leading_ones(given, s.view.ndim() - s.masks[0].mask.ndim() + 1);
    if (value_over_view(s, source, kOp)) {
      masked_fill(s, *value_over_view(s, prepared(source, s.view, kOp), kOp), kOp);
    } else {
      setitem_by_mask(std::move(s), source, kOp);
    }
    return;
  }
  expand_masks(s, kOp);
  const Dims middle = broadcast_indexes(s.indexes, s.extra, kOp);
  scatter(s.view, s.indexes, middle, s.at, IndexMode::kRaise, value, kOp);
}

}  // namespace gpk::ops
