#include "ops/manipulation/pad.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"

namespace gpk::ops {
namespace {

// Shape of the result.
Dims check_pad(const Array& x, const PadWidths& widths, PadMode mode) {
  Dims shape = x.shape();
  for (int i = 0; i < shape.size(); ++i) {
    const auto [before, after] = widths[static_cast<std::size_t>(i)];
    if (before < 0 || after < 0)
      throw InvalidArgument(cat("pad: pad_width of axis ", i, " is (", before, ", ", after,
                                "), expected numbers >= 0"));
    if (shape[i] == 0 && (before > 0 || after > 0) && mode != PadMode::kConstant &&
        mode != PadMode::kEmpty)
      throw InvalidArgument(cat("pad: axis ", i, " of shape ", to_string(x.shape()),
                                " is empty and can be extended by mode 'constant' only"));
    std::int64_t total = 0;
    if (__builtin_add_overflow(before, after, &total) ||
        __builtin_add_overflow(shape[i], total, &shape[i]))
      throw InvalidArgument("pad: the result has more than 2**63 - 1 elements");
  }
  num_elements(shape, "pad");
  return shape;
}

// One axis of the result, filled in [begin, end).
struct Filled {
  const Array& out;
  int axis;
  std::int64_t begin;
  std::int64_t end;

  [[nodiscard]] Array part(std::int64_t first, std::int64_t count, std::int64_t step = 1) const {
    return slice_axis(out, axis, first, count, step);
  }
};

void pad_constant(const Filled& f, std::int64_t before, std::int64_t after,
                  const std::pair<Scalar, Scalar>& values) {
  const auto put = [&](std::int64_t first, std::int64_t count, const Scalar& value) {
    if (count > 0)
      copy_into(f.part(first, count), full({}, value, f.out.dtype(), f.out.device(), "pad"), "pad");
  };
  put(0, before, values.first);
  put(f.end, after, values.second);
}

void pad_edge(const Filled& f, std::int64_t before, std::int64_t after) {
  if (before > 0) copy_into(f.part(0, before), f.part(f.begin, 1), "pad");
  if (after > 0) copy_into(f.part(f.end, after), f.part(f.end - 1, 1), "pad");
}

// The rest of an axis whose filled part is at least one period long: every copy at least doubles
// it.
void extend_periodic(Filled f, std::int64_t period) {
  const std::int64_t total = f.out.shape()[f.axis];
  while (f.begin > 0 || f.end < total) {
    const std::int64_t shift = (f.end - f.begin) / period * period;
    const std::int64_t right = std::min(shift, total - f.end);
    if (right > 0) copy_into(f.part(f.end, right), f.part(f.end - shift, right), "pad");
    const std::int64_t left = std::min(shift, f.begin);
    if (left > 0)
      copy_into(f.part(f.begin - left, left), f.part(f.begin - left + shift, left), "pad");
    f.end += right;
    f.begin -= left;
  }
}

// `skip` is 1 where the edge itself is not repeated.
void pad_mirrored(Filled f, std::int64_t before, std::int64_t after, std::int64_t skip) {
  const std::int64_t size = f.end - f.begin;
  if (size == skip) return pad_edge(f, before, after);
  const std::int64_t right = std::min(after, size - skip);
  if (right > 0) copy_into(f.part(f.end, right), f.part(f.end - 1 - skip, right, -1), "pad");
  const std::int64_t left = std::min(before, size - skip);
  if (left > 0)
    copy_into(f.part(f.begin - left, left), f.part(f.begin + skip + left - 1, left, -1), "pad");
  f.begin -= left;
  f.end += right;
  extend_periodic(f, 2 * (size - skip));
}

void pad_axis(const Filled& f, std::int64_t before, std::int64_t after, PadMode mode,
              const std::pair<Scalar, Scalar>* values) {
  switch (mode) {
    case PadMode::kConstant: return pad_constant(f, before, after, *values);
    case PadMode::kEdge: return pad_edge(f, before, after);
    case PadMode::kReflect: return pad_mirrored(f, before, after, 1);
    case PadMode::kSymmetric: return pad_mirrored(f, before, after, 0);
    case PadMode::kWrap: return extend_periodic(f, f.end - f.begin);
    case PadMode::kEmpty: return;
  }
}

// A view without the border of axis `first` and of those after it.
Array without_border(Array out, const Array& x, const PadWidths& widths, int first) {
  for (int i = first; i < x.ndim(); ++i)
    out = slice_axis(out, i, widths[static_cast<std::size_t>(i)].first, x.shape()[i], 1);
  return out;
}

}  // namespace

std::optional<PadMode> pad_mode_from_name(std::string_view name) noexcept {
  static constexpr std::pair<std::string_view, PadMode> kModes[] = {
      {"constant", PadMode::kConstant},   {"edge", PadMode::kEdge}, {"reflect", PadMode::kReflect},
      {"symmetric", PadMode::kSymmetric}, {"wrap", PadMode::kWrap}, {"empty", PadMode::kEmpty},
  };
  for (const auto& [text, mode] : kModes)
    if (text == name) return mode;
  return std::nullopt;
}

Array pad(const Array& x, const PadWidths& widths, PadMode mode, const PadValues& values) {
  const Dims shape = check_pad(x, widths, mode);
  for (const auto& [before, after] : values) {
    to_bytes(before, x.dtype(), "pad");
    to_bytes(after, x.dtype(), "pad");
  }
  Array out = Array::empty(shape, x.dtype(), x.device(), "pad");
  copy_into(without_border(out, x, widths, 0), x, "pad");
  // Axis by axis; earlier axes are complete, later ones are filled only in the middle.
  for (int i = 0; i < x.ndim(); ++i) {
    const auto [before, after] = widths[static_cast<std::size_t>(i)];
    const Array rows = without_border(out, x, widths, i + 1);
    if (rows.size() == 0 || before + after == 0) continue;
    pad_axis({rows, i, before, before + x.shape()[i]}, before, after, mode,
             values.empty() ? nullptr : &values[static_cast<std::size_t>(i)]);
  }
  return out;
}

}  // namespace gpk::ops
