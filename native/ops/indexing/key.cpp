#include "ops/indexing/key.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/elementwise/fill.h"

namespace gpk::ops {
namespace {

using namespace indexing;

using Kind = IndexItem::Kind;

[[noreturn]] void bad_index(const std::string& message) {
  throw InvalidArgument(InvalidArgument::Kind::kIndex, message);
}

bool is_advanced(Kind kind) {
  return kind == Kind::kArray || kind == Kind::kMask || kind == Kind::kBool;
}

int num_axes(const IndexItem& item) {
  switch (item.kind) {
    case Kind::kInteger:
    case Kind::kSlice:
    case Kind::kArray: return 1;
    case Kind::kMask: return item.array->ndim();
    default: return 0;
  }
}

// Builds the view axis by axis; `from_` is the next axis of the array.
class Walk {
 public:
  Walk(const Array& array, const char* op) : array_(array), op_(op) {
    offset_ = array.offset_elems();
  }

  void integer(std::int64_t index) {
    const std::int64_t size = array_.shape()[from_];
    const std::int64_t at = index < 0 ? index + size : index;
    if (at < 0 || at >= size)
      bad_index(
          cat(op_, ": index ", index, " is out of bounds for axis ", from_, " with size ", size));
    offset_ += at * array_.strides()[from_];
    whole_ = false;
    ++from_;
  }

  // Python's rules for slices.
  void slice(const IndexItem& item) {
    const std::int64_t size = array_.shape()[from_];
    const std::int64_t step = item.step;
    const std::int64_t low = step < 0 ? -1 : 0;
    const std::int64_t high = step < 0 ? size - 1 : size;
    const std::int64_t start =
        std::clamp(item.start < 0 ? item.start + size : item.start, low, high);
    const std::int64_t stop = std::clamp(item.stop < 0 ? item.stop + size : item.stop, low, high);
    std::int64_t count = 0;
    if (step < 0 && stop < start) count = (start - stop - 1) / -step + 1;
    if (step > 0 && start < stop) count = (stop - start - 1) / step + 1;
    const std::int64_t stride = array_.strides()[from_];
    if (count > 0) offset_ += start * stride;
    // A step past the axis is never taken; the product could overflow.
    push(count, count > 1 ? stride * step : stride);
    whole_ = whole_ && count == size && (step == 1 || count <= 1);
    ++from_;
  }

  void full(int count) {
    for (; count > 0; --count, ++from_) push(array_.shape()[from_], array_.strides()[from_]);
  }

  void push(std::int64_t size, std::int64_t stride) {
    if (rank_ == kMaxRank)
      bad_index(cat(op_, ": the result would have more than ", kMaxRank, " dimensions"));
    shape_[rank_] = size;
    strides_[rank_++] = stride;
  }

  // An axis kept whole, for an index array to pick from.
  void picked() {
    full(1);
    whole_ = false;
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int from() const { return from_; }

  Array view() const {
    if (!whole_ && info(array_.dtype()).bits == 4)
      throw InvalidArgument(
          InvalidArgument::Kind::kType,
          cat(op_, ": ", name(array_.dtype()),
              " shares bytes and cannot be viewed in parts; cast it with astype"));
    const auto rank = static_cast<std::size_t>(rank_);
    return {Dims(std::span<const std::int64_t>(shape_, rank)),
            Dims(std::span<const std::int64_t>(strides_, rank)), array_.dtype(), array_.buffer(),
            offset_};
  }

 private:
  const Array& array_;
  const char* op_;
  std::int64_t shape_[kMaxRank];
  std::int64_t strides_[kMaxRank];
  std::int64_t offset_;
  int rank_ = 0;
  int from_ = 0;
  bool whole_ = true;
};

// Position of the index arrays' axes: at the first of them when they are adjacent in the key, else
// in front. Integers count as 0-d arrays.
class Placement {
 public:
  void advanced(int num_free) {
    if (state_ == State::kBefore) at_ = num_free;
    if (state_ == State::kAfter) separated_ = true;
    state_ = State::kInside;
  }
  void other() {
    if (state_ == State::kInside) state_ = State::kAfter;
  }
  [[nodiscard]] int at() const { return separated_ ? 0 : at_; }

 private:
  enum class State { kBefore, kInside, kAfter };
  State state_ = State::kBefore;
  int at_ = 0;
  bool separated_ = false;
};

// The mask over the array's own axes from `axis` on. As in NumPy an axis of size 0 matches any
// size: it selects nothing.
Array fitted_mask(const Array& array, const Array& mask, int axis, const char* op) {
  Dims shape = mask.shape();
  for (int i = 0; i < mask.ndim(); ++i) {
    const std::int64_t size = array.shape()[axis + i];
    if (mask.shape()[i] != size && mask.shape()[i] != 0)
      bad_index(cat(op, ": boolean index did not match indexed array along axis ", axis + i,
                    "; size of axis is ", size, " but size of corresponding boolean axis is ",
                    mask.shape()[i]));
    shape[i] = size;
  }
  if (shape == mask.shape()) return mask;
  return broadcast_to(full({}, Scalar(false), DType::kBool, mask.device(), op), shape, op);
}

// Number of axes the ellipsis expands to; checks the key as a whole.
int missing_axes(const Array& array, std::span<const IndexItem> items, const char* op) {
  int used = 0;
  int ellipses = 0;
  for (const IndexItem& item : items) {
    used += num_axes(item);
    ellipses += item.kind == Kind::kEllipsis ? 1 : 0;
    if (item.kind == Kind::kSlice && item.step == 0)
      throw InvalidArgument(cat(op, ": slice step cannot be zero"));
  }
  if (ellipses > 1) bad_index(cat(op, ": an index can only have a single ellipsis ('...')"));
  if (used > array.ndim())
    bad_index(cat(op, ": too many indices for array: array is ", array.ndim(), "-dimensional, but ",
                  used, " were indexed"));
  return array.ndim() - used;
}

}  // namespace

Array select_view(const Array& array, std::span<const IndexItem> items, const char* op) {
  const int missing = missing_axes(array, items, op);
  Walk walk(array, op);
  bool had_ellipsis = false;
  for (const IndexItem& item : items) {
    if (item.kind == Kind::kSlice) {
      walk.slice(item);
    } else if (item.kind == Kind::kInteger) {
      walk.integer(item.start);
    } else if (item.kind == Kind::kNewAxis) {
      walk.push(1, 0);
    } else {
      walk.full(missing);
      had_ellipsis = true;
    }
  }
  if (!had_ellipsis) walk.full(missing);
  return walk.view();
}

Selection indexing::select(const Array& array, std::span<const IndexItem> items, const char* op) {
  const int missing = missing_axes(array, items, op);
  bool advanced = false;
  for (const IndexItem& item : items) advanced = advanced || is_advanced(item.kind);
  Walk walk(array, op);
  Placement placement;
  std::vector<AxisIndex> indexes;
  std::vector<AxisMask> masks;
  std::vector<Dims> extra;
  bool had_ellipsis = false;
  int num_picked = 0;
  for (const IndexItem& item : items) {
    const bool picks = is_advanced(item.kind) || (advanced && item.kind == Kind::kInteger);
    if (picks) {
      placement.advanced(walk.rank() - num_picked);
    } else {
      placement.other();
    }
    switch (item.kind) {
      case Kind::kInteger: walk.integer(item.start); break;
      case Kind::kSlice: walk.slice(item); break;
      case Kind::kEllipsis:
        walk.full(missing);
        had_ellipsis = true;
        break;
      case Kind::kNewAxis: walk.push(1, 0); break;
      case Kind::kArray:
        check_device(array, "the array", item.array->device(), "an index", op);
        indexes.push_back({*item.array, walk.rank(), walk.from()});
        walk.picked();
        ++num_picked;
        break;
      case Kind::kMask:
        check_device(array, "the array", item.array->device(), "an index", op);
        masks.push_back(
            {fitted_mask(array, *item.array, walk.from(), op), walk.rank(), walk.from()});
        for (int i = 0; i < item.array->ndim(); ++i) walk.picked();
        num_picked += item.array->ndim();
        break;
      case Kind::kBool: extra.push_back(Dims{item.start != 0 ? 1 : 0}); break;
    }
  }
  if (!had_ellipsis) walk.full(missing);
  return {walk.view(), std::move(indexes), std::move(masks), std::move(extra), placement.at()};
}

Dims indexing::broadcast_indexes(const std::vector<AxisIndex>& indexes,
                                 const std::vector<Dims>& extra, const char* op) {
  Dims shape;
  std::vector<std::string> shapes;
  try {
    for (const Dims& dims : extra) shape = broadcast_shapes(shape, dims, op);
    for (const AxisIndex& index : indexes) shape = broadcast_shapes(shape, index.array.shape(), op);
  } catch (const InvalidArgument&) {
    for (const AxisIndex& index : indexes) shapes.push_back(to_string(index.array.shape()));
    for (const Dims& dims : extra) shapes.push_back(to_string(dims));
    bad_index(cat(op,
                  ": shape mismatch: indexing arrays could not be broadcast together with shapes ",
                  join(shapes, " ")));
  }
  return shape;
}

Dims indexing::result_shape(const Dims& view, std::uint32_t picked, const Dims& middle, int at,
                            const char* op) {
  std::int64_t sizes[2 * kMaxRank];
  int rank = 0;
  int num_free = 0;
  const auto put_middle = [&] {
    for (const std::int64_t size : middle) sizes[rank++] = size;
  };
  for (int i = 0; i < view.size(); ++i) {
    if ((picked >> i & 1u) != 0) continue;
    if (num_free++ == at) put_middle();
    sizes[rank++] = view[i];
  }
  if (num_free <= at) put_middle();
  if (rank > kMaxRank)
    throw InvalidArgument(cat(op, ": the result would have ", rank, " dimensions, at most ",
                              kMaxRank, " are supported"));
  return Dims(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)));
}

}  // namespace gpk::ops
