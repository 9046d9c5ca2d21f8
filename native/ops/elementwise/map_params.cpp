#include "ops/elementwise/map_params.h"

#include <bit>
#include <cstring>

namespace gpk::ops {

const char* kernel_type(DType dtype) {
  if (dtype == DType::kFloat8E4M3FN) return "gpk::float8_e4m3fn";
  if (dtype == DType::kFloat8E5M2) return "gpk::float8_e5m2";
  return info(dtype).cuda_name;
}

Divider make_divider(std::int64_t divisor) noexcept {
  const auto d = static_cast<std::uint32_t>(divisor);
  const auto shift = static_cast<std::uint32_t>(std::bit_width(d - 1));
  const std::uint64_t magic =
      ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1;
  return {d, static_cast<std::uint32_t>(magic), shift};
}

template <class T>
void MapParams::put(T value) {
  std::memcpy(bytes_ + at_, static_cast<const void*>(&value), sizeof value);
  at_ += sizeof value;
}

void MapParams::align(std::size_t to) { at_ = (at_ + to - 1) / to * to; }

// Sizes as dividers, sizes, strides; the inner axis counts in steps of plan.vec elements.
void MapParams::write_axes(const MapPlan& plan, const Layout& layout, int rank) {
  const auto size = [&](int axis) {
    return axis == 0 ? layout.size[0] / plan.vec : layout.size[axis];
  };
  const bool small = plan.form == MapPlan::Form::kStrided && !plan.wide;
  for (int axis = 0; axis < rank; ++axis)
    put(small && axis < layout.rank ? make_divider(size(axis)) : Divider{1, 1, 0});
  align(8);
  for (int axis = 0; axis < rank; ++axis) put(axis < layout.rank ? size(axis) : std::int64_t{1});
  for (int axis = 0; axis < layout.rank; ++axis)
    for (int k = 0; k < layout.num_operands; ++k) {
      const std::int64_t stride = layout.stride[axis][k] * (axis == 0 ? plan.vec : 1);
      if (small) {
        put(static_cast<std::int32_t>(stride));
      } else {
        put(stride);
      }
    }
  at_ += static_cast<std::size_t>(rank - layout.rank) *
         static_cast<std::size_t>(layout.num_operands) * (small ? 4 : 8);
}

void MapParams::write(const MapPlan& plan, const Layout& layout,
                      std::span<const MapOperand> operands, const Array& result) {
  at_ = 0;
  for (const MapOperand& operand : operands)
    put(operand.array == nullptr ? nullptr : operand.array->data());
  put(result.data());
  align(16);
  for (const MapOperand& operand : operands) put(operand.number);
  if (plan.form == MapPlan::Form::kDense) return;
  put(plan.items);
  put(layout.rank);
  const int rank = plan.form == MapPlan::Form::kAny || plan.deep ? kMaxRank : 4;
  write_axes(plan, layout, rank);
  if (plan.form != MapPlan::Form::kAny) return;
  for (const MapOperand& operand : operands)
    put(operand.array == nullptr ? std::uint8_t{255}
                                 : static_cast<std::uint8_t>(operand.array->dtype()));
  put(static_cast<std::uint8_t>(result.dtype()));
}

void MapParams::advance(const MapPlan& plan, std::span<const MapOperand> operands,
                        const Array& result, std::int64_t elems) {
  at_ = 0;
  const auto move = [&](const Array* array) {
    auto* data = array == nullptr ? nullptr : static_cast<unsigned char*>(array->data());
    put(data == nullptr ? data
                        : data + elems * static_cast<std::int64_t>(itemsize(array->dtype())));
  };
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const bool one_for_all = (plan.kinds >> (2 * k) & 3u) != 0;
    if (one_for_all)
      at_ += sizeof(void*);
    else
      move(operands[k].array);
  }
  move(&result);
}

}  // namespace gpk::ops
