#include "ops/elementwise/layout.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace gpk::ops::elementwise {
namespace {

// Strides of the operands along one axis of `shape`, by NumPy's alignment at the last axis.
void fill_strides(const Dims& shape, int axis, std::span<const Array* const> operands,
                  std::int64_t* out) {
  for (std::size_t k = 0; k < operands.size(); ++k) {
    out[k] = 0;
    const Array* array = operands[k];
    if (array == nullptr) continue;
    const int own = axis - (shape.size() - array->ndim());
    if (own >= 0 && array->shape()[own] != 1) out[k] = array->strides()[own];
  }
}

bool mergeable(const Layout& layout, int inner, const std::int64_t* stride) {
  for (int k = 0; k < layout.num_operands; ++k)
    if (stride[k] != layout.stride[inner][k] * layout.size[inner]) return false;
  return true;
}

}  // namespace

std::int64_t Layout::num_elements() const noexcept {
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= size[i];
  return n;
}

Layout make_layout(const Dims& shape, std::span<const Array* const> operands) {
  struct Axis {
    std::int64_t size;
    std::int64_t stride[kMaxOperands];
  };
  Axis axes[kMaxRank];
  int count = 0;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    axes[count].size = shape[i];
    fill_strides(shape, i, operands, axes[count].stride);
    ++count;
  }
  const std::size_t result = operands.size() - 1;
  std::stable_sort(axes, axes + count, [&](const Axis& a, const Axis& b) {
    return std::llabs(a.stride[result]) < std::llabs(b.stride[result]);
  });
  Layout layout;
  layout.num_operands = static_cast<int>(operands.size());
  for (int i = 0; i < count; ++i) {
    const int last = layout.rank - 1;
    if (last >= 0 && mergeable(layout, last, axes[i].stride)) {
      layout.size[last] *= axes[i].size;
      continue;
    }
    layout.size[layout.rank] = axes[i].size;
    std::copy_n(axes[i].stride, operands.size(), layout.stride[layout.rank]);
    ++layout.rank;
  }
  return layout;
}

bool fits_32_bits(const Layout& layout) noexcept {
  constexpr std::int64_t kLimit = INT32_MAX;
  if (layout.num_elements() > kLimit) return false;
  for (int k = 0; k < layout.num_operands; ++k) {
    std::int64_t reach = 0;
    for (int i = 0; i < layout.rank; ++i)
      reach += (layout.size[i] - 1) * std::llabs(layout.stride[i][k]);
    if (reach > kLimit) return false;
  }
  return true;
}

std::string to_string(const Layout& layout) {
  std::string text = cat("layout(size=(",
                         join(std::span(layout.size, static_cast<std::size_t>(layout.rank)), ", "),
                         "), strides=(");
  for (int k = 0; k < layout.num_operands; ++k) {
    text += k == 0 ? "(" : ", (";
    for (int i = 0; i < layout.rank; ++i) text += cat(i == 0 ? "" : ", ", layout.stride[i][k]);
    text += ')';
  }
  return text + "))";
}

}  // namespace gpk::ops::elementwise
