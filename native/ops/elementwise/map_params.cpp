#include "ops/elementwise/map_params.h"

#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace gpk::ops::elementwise {
namespace {

using kernels::AnyArgs;
using kernels::MapArgs;
using kernels::StridedArgs;

static_assert(kMaxRank == 32, "the rank of kernels::AnyArgs");

// run.operator()<kN>() for the kN that is `count`, 1 to kMaxOperands - 1.
template <class Run>
void with_count(std::size_t count, const Run& run) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) {
    ((count == kI + 1 ? run.template operator()<kI + 1>() : void()), ...);
  }(std::make_integer_sequence<int, kMaxOperands - 1>());
}

template <int kN>
void write_map(MapArgs<kN>& args, std::span<const MapOperand> operands, const Array& result) {
  for (int k = 0; k < kN; ++k) {
    const MapOperand& operand = operands[static_cast<std::size_t>(k)];
    args.in[k] = operand.array == nullptr ? nullptr : operand.array->data();
    std::memcpy(args.number[k].bytes, operand.number.bytes, sizeof args.number[k].bytes);
  }
  args.out = result.data();
}

// The inner axis counts in steps of plan.vec elements. Axes beyond the layout's are not read.
template <int kN, int kRank, class Index>
void write_strided(StridedArgs<kN, kRank, Index>& args, const MapPlan& plan, const Layout& layout,
                   std::span<const MapOperand> operands, const Array& result) {
  write_map(args.map, operands, result);
  args.n = plan.items;
  args.rank = layout.rank;
  for (int axis = 0; axis < layout.rank; ++axis) {
    const std::int64_t vec = axis == 0 ? plan.vec : 1;
    args.long_size[axis] = layout.size[axis] / vec;
    if constexpr (sizeof(Index) == 4) args.size[axis] = make_divider(args.long_size[axis]);
    for (int k = 0; k <= kN; ++k)
      args.stride[axis][k] = static_cast<Index>(layout.stride[axis][k]) * static_cast<Index>(vec);
  }
}

}  // namespace

const char* kernel_type(DType dtype) {
  if (dtype == DType::kFloat8E4M3FN) return "gpk::float8_e4m3fn";
  if (dtype == DType::kFloat8E5M2) return "gpk::float8_e5m2";
  return info(dtype).cuda_name;
}

kernels::Divider make_divider(std::int64_t divisor) noexcept {
  const auto d = static_cast<std::uint32_t>(divisor);
  const auto shift = static_cast<std::uint32_t>(std::bit_width(d - 1));
  const std::uint64_t magic =
      ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1;
  return {d, static_cast<std::uint32_t>(magic), shift};
}

void MapParams::write(const MapPlan& plan, const Layout& layout,
                      std::span<const MapOperand> operands, const Array& result) {
  with_count(operands.size(), [&]<int kN>() {
    const auto strided = [&]<int kRank, class Index>() {
      using Args = StridedArgs<kN, kRank, Index>;
      write_strided(*new (bytes_) Args, plan, layout, operands, result);
    };
    switch (plan.form) {
      case MapPlan::Form::kDense: return write_map(*new (bytes_) MapArgs<kN>, operands, result);
      case MapPlan::Form::kStrided:
        if (plan.wide)
          return plan.deep ? strided.template operator()<kMaxRank, long long>()
                           : strided.template operator()<kFewAxes, long long>();
        return plan.deep ? strided.template operator()<kMaxRank, int>()
                         : strided.template operator()<kFewAxes, int>();
      case MapPlan::Form::kAny: break;
    }
    auto& args = *new (bytes_) AnyArgs<kN>;
    write_strided(args.strided, plan, layout, operands, result);
    for (int k = 0; k < kN; ++k) {
      const Array* array = operands[static_cast<std::size_t>(k)].array;
      args.dtype[k] =
          array == nullptr ? AnyArgs<kN>::kNumber : static_cast<unsigned char>(array->dtype());
    }
    args.dtype[kN] = static_cast<unsigned char>(result.dtype());
  });
}

void MapParams::advance(const MapPlan& plan, std::span<const MapOperand> operands,
                        const Array& result, std::int64_t elems) {
  const auto moved = [&](const Array& array) {
    return static_cast<unsigned char*>(array.data()) +
           elems * static_cast<std::int64_t>(itemsize(array.dtype()));
  };
  with_count(operands.size(), [&]<int kN>() {
    auto& args = *std::launder(reinterpret_cast<MapArgs<kN>*>(bytes_));
    for (unsigned k = 0; k < kN; ++k) {
      const auto kind = static_cast<kernels::OperandKind>(plan.kinds >> (2 * k) & 3u);
      if (kind == kernels::OperandKind::kArray) args.in[k] = moved(*operands[k].array);
    }
    args.out = moved(result);
  });
}

}  // namespace gpk::ops::elementwise
