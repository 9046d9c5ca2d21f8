#include "ops/manipulation/roll.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"

namespace gpk::ops {
namespace {

// Axes rolled in one pass over the data; each doubles the number of copies.
constexpr int kAxesPerPass = 3;

struct Shift {
  int axis = 0;
  std::int64_t by = 0;  // in (0, size of the axis)
};

struct Shifts {
  Shift items[kMaxRank];
  int count = 0;
};

Dims broadcast(const Dims& values, int size) {
  return values.size() == 1 ? Dims::filled(size, values[0]) : values;
}

// One total shift per axis, without no-ops.
Shifts check_roll(const Array& x, const Dims& shift, const Dims& axes) {
  const int count = std::max(shift.size(), axes.size());
  const Dims by = broadcast(shift, count);
  const Dims along = broadcast(axes, count);
  if (by.size() != along.size())
    throw InvalidArgument(cat("roll: shift ", to_string(shift), " and axis ", to_string(axes),
                              " must have the same length, or one of them length 1"));
  Dims total = Dims::filled(x.ndim(), 0);
  for (int i = 0; i < count; ++i) {
    const int axis = normalize_axis(along[i], x.ndim(), "roll");
    const std::int64_t size = std::max<std::int64_t>(x.shape()[axis], 1);
    total[axis] = ((total[axis] + by[i] % size) % size + size) % size;
  }
  Shifts shifts;
  for (int axis = 0; axis < x.ndim(); ++axis)
    if (total[axis] != 0) shifts.items[shifts.count++] = {axis, total[axis]};
  return shifts;
}

void roll_into(const Array& out, const Array& x, const Shift* shifts, int count) {
  if (count == 0) {
    copy_into(out, x, "roll");
    return;
  }
  const auto [axis, by] = shifts[0];
  const std::int64_t kept = x.shape()[axis] - by;
  roll_into(slice_axis(out, axis, by, kept, 1), slice_axis(x, axis, 0, kept, 1), shifts + 1,
            count - 1);
  roll_into(slice_axis(out, axis, 0, by, 1), slice_axis(x, axis, kept, by, 1), shifts + 1,
            count - 1);
}

}  // namespace

Array roll(const Array& x, const Dims& shift, const std::optional<Dims>& axes) {
  if (!axes) {
    // NumPy also adds up several shifts of the flattened array.
    const Dims all_zero = Dims::filled(std::max(shift.size(), 1), 0);
    return reshape(roll(reshape(x, {-1}, "roll"), shift, all_zero), x.shape(), "roll");
  }
  const Shifts shifts = check_roll(x, shift, *axes);
  Array result = x;
  int done = 0;
  do {
    const int count = std::min(kAxesPerPass, shifts.count - done);
    Array out = Array::empty(x.shape(), x.dtype(), x.device(), "roll");
    if (out.size() > 0) roll_into(out, result, shifts.items + done, count);
    result = out;
    done += count;
  } while (done < shifts.count);
  return result;
}

}  // namespace gpk::ops
