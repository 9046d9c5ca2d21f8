#include "ops/elementwise/map.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/gated_work.h"
#include "core/promote.h"
#include "core/stream.h"
#include "ops/elementwise/map_params.h"
#include "ops/elementwise/rules.h"
#include "ops/kernel_table.h"
#include "ops/simulate.h"
#include "ops/submit.h"
#include "plan/key_builder.h"
#include "runtime/sharing/slicing.h"

namespace gpk::ops::elementwise {
namespace {

using kernels::OperandKind;

constexpr std::size_t kAccessBytes = 16;

std::uintptr_t address(const Array& array) {
  return reinterpret_cast<std::uintptr_t>(array.data());
}

bool aligned(const Array& array, int vec) {
  return address(array) % (itemsize(array.dtype()) * static_cast<std::size_t>(vec)) == 0;
}

int widest_access(std::span<const MapOperand> operands, const Array& result) {
  std::size_t widest = itemsize(result.dtype());
  for (const MapOperand& operand : operands)
    if (operand.array != nullptr) widest = std::max(widest, itemsize(operand.array->dtype()));
  return static_cast<int>(kAccessBytes / widest);
}

std::uint32_t kind_bits(OperandKind kind, std::size_t at) {
  return static_cast<std::uint32_t>(kind) << (2 * at);
}

// Everything in one axis of stride 1 or, for a single element, 0.
bool is_dense(const Layout& layout) {
  if (layout.rank == 0) return true;
  if (layout.rank > 1 || layout.stride[0][layout.num_operands - 1] != 1) return false;
  for (int k = 0; k + 1 < layout.num_operands; ++k)
    if (layout.stride[0][k] != 0 && layout.stride[0][k] != 1) return false;
  return true;
}

void plan_dense(MapPlan& plan, const Layout& layout, std::span<const MapOperand> operands,
                const Array& result) {
  plan.form = MapPlan::Form::kDense;
  const int vec = widest_access(operands, result);
  bool wide_ok = aligned(result, vec);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const bool spread = layout.rank > 0 && layout.stride[0][k] == 1;
    if (operands[k].array == nullptr) {
      plan.kinds |= kind_bits(OperandKind::kNumber, k);
    } else if (!spread) {
      plan.kinds |= kind_bits(OperandKind::kOneElement, k);
    } else {
      wide_ok = wide_ok && aligned(*operands[k].array, vec);
    }
  }
  plan.vec = wide_ok ? vec : 1;
  plan.items = layout.num_elements();
}

// Vectors along the inner axis need every other stride, and the size, to be a multiple of them.
bool can_vectorize(const Layout& layout, std::span<const MapOperand> operands, const Array& result,
                   int vec) {
  if (vec == 1 || layout.size[0] % vec != 0) return false;
  for (int k = 0; k < layout.num_operands; ++k) {
    const bool is_result = k + 1 == layout.num_operands;
    const Array* array = is_result ? &result : operands[static_cast<std::size_t>(k)].array;
    if (array == nullptr) continue;
    const std::int64_t inner = layout.stride[0][k];
    if (inner == 0 && !is_result) continue;
    if (inner != 1 || !aligned(*array, vec)) return false;
    for (int axis = 1; axis < layout.rank; ++axis)
      if (layout.stride[axis][k] % vec != 0) return false;
  }
  return true;
}

void plan_strided(MapPlan& plan, const Layout& layout, std::span<const MapOperand> operands,
                  const Array& result) {
  plan.form = MapPlan::Form::kStrided;
  plan.deep = layout.rank > kFewAxes;
  plan.wide = !fits_32_bits(layout);
  plan.vec = widest_access(operands, result);
  while (plan.vec > 1 && !can_vectorize(layout, operands, result, plan.vec)) plan.vec /= 2;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].array == nullptr) {
      plan.kinds |= kind_bits(OperandKind::kNumber, k);
    } else if (plan.vec > 1 && layout.stride[0][k] == 0) {
      plan.kinds |= kind_bits(OperandKind::kOneElement, k);
    }
  }
  plan.items = layout.num_elements() / plan.vec;
}

}  // namespace

MapPlan plan_map(const Layout& layout, std::span<const MapOperand> operands, const Array& result,
                 bool jit) {
  MapPlan plan;
  if (!jit) {
    plan.form = MapPlan::Form::kAny;
    plan.items = layout.num_elements();
  } else if (is_dense(layout)) {
    plan_dense(plan, layout, operands, result);
  } else {
    plan_strided(plan, layout, operands, result);
  }
  return plan;
}

std::string to_string(const MapPlan& plan) {
  static constexpr const char* kForms[] = {"dense", "strided", "any"};
  return cat("map(", kForms[static_cast<int>(plan.form)], ", vec=", plan.vec, ", deep=", plan.deep,
             ", wide=", plan.wide, ", kinds=", plan.kinds, ", items=", plan.items, ")");
}

std::string any_expression(const std::string& functor, DType common, std::size_t num_operands) {
  std::string of;  // the one functor that depends on how its operands are stored
  if (functor == "gpk::Nextafter" && is_float(common) && itemsize(common) == 2)
    of = cat("Of<", info(common).cuda_name, ">");
  return cat("gpk::map_any<", functor, of, ", ", info(any_compute_dtype(common)).cuda_name, ", ",
             num_operands, ">");
}

std::string map_expression(const MapPlan& plan, const std::string& functor,
                           const std::string& common, std::span<const DType> inputs, DType result) {
  const bool dense = plan.form == MapPlan::Form::kDense;
  std::string text = cat(dense ? "gpk::map_dense<" : "gpk::map_strided<", functor, ", ", common,
                         ", ", kernel_type(result), ", ", plan.vec, ", ", kMapUnroll, ", ");
  if (!dense)
    text += cat(plan.deep ? kMaxRank : kFewAxes, ", ", plan.wide ? "long long" : "int", ", ");
  text += cat(plan.kinds, 'u');
  for (const DType input : inputs) text += cat(", ", kernel_type(input));
  return text + ">";
}

std::uint64_t map_key(const MapPlan& plan, unsigned op, DType common, std::span<const DType> inputs,
                      DType result) {
  plan::KeyBuilder key;
  key.field("op", op, 8).field("form", plan.form, 2).field("common", common, plan::kDTypeBits);
  if (plan.form == MapPlan::Form::kAny) return key.key();
  key.field("vec", plan.vec, 5).field("deep", plan.deep, 1).field("wide", plan.wide, 1);
  key.field("kinds", plan.kinds, 8).field("result", result, plan::kDTypeBits);
  for (const DType input : inputs) key.field("input", input, plan::kDTypeBits);
  return key.key();
}

namespace {

// Below what any GPU we support reaches, so that slices come out short rather than long.
constexpr double kSlowestBytesPerNs = 2000.0;

// Under a gate that keeps kernels short: runs of whole blocks. Every element is computed by itself,
// so the result has the same bits.
runtime::SlicePlan plan_slices(const MapPlan& plan, std::span<const MapOperand> operands,
                               const Array& result, std::int64_t per_block) {
  const auto num_blocks = static_cast<std::uint64_t>(ceil_div(plan.items, per_block));
  const SubmissionGate* gate = current_stream(result.device())->gate();
  if (gate == nullptr || gate->slice_ns() == 0 || plan.form != MapPlan::Form::kDense) [[likely]]
    return {num_blocks, 1};
  std::size_t item_bytes = itemsize(result.dtype());
  for (const MapOperand& operand : operands)
    if (operand.array != nullptr) item_bytes += itemsize(operand.array->dtype());
  const double block_ns =
      static_cast<double>(item_bytes) * static_cast<double>(per_block) / kSlowestBytesPerNs;
  return runtime::plan_slices(num_blocks, block_ns, static_cast<double>(gate->slice_ns()));
}

}  // namespace

namespace {

std::int64_t items_per_block(const MapPlan& plan) {
  if (plan.form == MapPlan::Form::kAny) return kMapBlock;
  const std::int64_t vec = plan.form == MapPlan::Form::kDense ? plan.vec : 1;
  return std::int64_t{kMapBlock} * kMapUnroll * vec;
}

}  // namespace

void simulate_map(SimulatedKernel& kernel, std::uint64_t variant,
                  const jit::CompileRequest& request, const MapPlan& plan, const Layout& layout,
                  std::span<const MapOperand> operands, const Array& result) {
  MapParams params;
  params.write(plan, layout, operands, result);
  std::vector<const Array*> arrays = {&result};
  for (const MapOperand& operand : operands) arrays.push_back(operand.array);
  std::int64_t n = plan.items;
  void* pointers[] = {params.bytes(), &n};
  kernel.run(variant, request, grid_1d(n, items_per_block(plan), kMapBlock), arrays, pointers);
}

void launch_map(const Kernel& kernel, const MapPlan& plan, const Layout& layout,
                std::span<const MapOperand> operands, const Array& result) {
  MapParams params;
  params.write(plan, layout, operands, result);
  const Array* arrays[kMaxOperands] = {&result};
  std::size_t count = 1;
  for (const MapOperand& operand : operands) arrays[count++] = operand.array;
  const std::int64_t per_block = items_per_block(plan);
  std::int64_t n = plan.items;
  void* pointers[] = {params.bytes(), &n};
  const runtime::SlicePlan slices = plan_slices(plan, operands, result, per_block);
  if (slices.num_slices == 1) [[likely]] {
    submit(kernel, grid_1d(n, per_block, kMapBlock), {arrays, count}, pointers);
    return;
  }
  for (std::uint64_t i = 0; i < slices.num_slices; ++i) {
    const runtime::SlicePlan::Range range = slices.slice(i);
    const std::int64_t first = static_cast<std::int64_t>(range.first_tile) * per_block;
    n = std::min(static_cast<std::int64_t>(range.num_tiles) * per_block, plan.items - first);
    params.advance(plan, operands, result, first);
    submit(kernel, grid_1d(n, per_block, kMapBlock), {arrays, count}, pointers);
  }
}

jit::KernelSpec map_spec(const char* name, std::string expression, std::uint64_t key,
                         bool bundled) {
  jit::KernelSpec spec;
  spec.kernel = static_cast<std::uint8_t>(ElementwiseKernel::kMap);
  spec.variant = key;
  spec.file = "elementwise/map.cuh";
  spec.op = name;
  spec.expression = std::move(expression);
  spec.bundled = bundled;
  return spec;
}

namespace {

// A 32-bit number for a kernel that computes in 64 bits. (Unsigned ones are zero above already.)
MapOperand sign_extended(MapOperand operand) {
  std::int32_t value = 0;
  std::memcpy(&value, operand.number.bytes, sizeof value);
  const std::int64_t extended = value;
  std::memcpy(operand.number.bytes, &extended, sizeof extended);
  return operand;
}

// The usual case without a search: arrays of the result's shape in C order, and numbers.
bool plain_plan(std::span<const MapOperand> operands, const Array& result, MapPlan& plan) {
  if (!result.is_contiguous()) return false;
  const int vec = widest_access(operands, result);
  bool wide_ok = aligned(result, vec);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Array* array = operands[k].array;
    if (array == nullptr) {
      plan.kinds |= kind_bits(OperandKind::kNumber, k);
      continue;
    }
    if (!(array->shape() == result.shape()) || !array->is_contiguous()) return false;
    wide_ok = wide_ok && aligned(*array, vec);
  }
  plan.vec = wide_ok ? vec : 1;
  plan.items = result.size();
  return true;
}

}  // namespace

void run_map(unsigned op, const char* name, const char* functor, DType common,
             std::span<const MapOperand> operands, const Array& result) {
  Layout layout;
  MapPlan plan;
  if (!jit::jit_available() || !plain_plan(operands, result, plan)) {
    const Array* arrays[kMaxOperands];
    std::size_t count = 0;
    for (const MapOperand& operand : operands) arrays[count++] = operand.array;
    arrays[count++] = &result;
    layout = make_layout(result.shape(), {arrays, count});
    plan = plan_map(layout, operands, result, jit::jit_available());
  }
  DType dtypes[kMaxOperands];
  for (std::size_t i = 0; i < operands.size(); ++i)
    dtypes[i] = operands[i].array == nullptr ? common : operands[i].array->dtype();
  const std::span<const DType> inputs(dtypes, operands.size());
  const std::uint64_t variant = map_key(plan, op, common, inputs, result.dtype());
  const auto make_spec = [&] {
    const std::string name_in_kernels = cat("gpk::", functor);
    if (plan.form == MapPlan::Form::kAny)
      return map_spec(name, any_expression(name_in_kernels, common, inputs.size()), variant, true);
    return map_spec(
        name, map_expression(plan, name_in_kernels, kernel_type(common), inputs, result.dtype()),
        variant, false);
  };
  constexpr auto kMap = static_cast<std::uint8_t>(ElementwiseKernel::kMap);
  const Kernel& k =
      kernel(Context::get(result.device().index), {Family::elementwise, kMap, variant}, make_spec);
  if (plan.form != MapPlan::Form::kAny || compute_dtype(common) != DType::kInt32) {
    launch_map(k, plan, layout, operands, result);
    return;
  }
  MapOperand wide[kMaxOperands];
  for (std::size_t i = 0; i < operands.size(); ++i) wide[i] = sign_extended(operands[i]);
  launch_map(k, plan, layout, {wide, operands.size()}, result);
}

ScalarBytes compute_number(const Scalar& scalar, DType dtype, const char* op) {
  const ScalarBytes stored = to_bytes(scalar, dtype, op);
  ScalarBytes wide;
  const auto put = [&](auto value) { std::memcpy(wide.bytes, &value, sizeof value); };
  const auto get = [&]<class T>(T value) {
    std::memcpy(&value, stored.bytes, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kInt8: put(std::int32_t{get(std::int8_t{})}); break;
    case DType::kInt16: put(std::int32_t{get(std::int16_t{})}); break;
    case DType::kUInt8: put(std::uint32_t{get(std::uint8_t{})}); break;
    case DType::kUInt16: put(std::uint32_t{get(std::uint16_t{})}); break;
    case DType::kFloat16: put(from_float16(get(std::uint16_t{}))); break;
    case DType::kBFloat16:
      put(std::bit_cast<float>(static_cast<std::uint32_t>(get(std::uint16_t{})) << 16));
      break;
    default: return stored;
  }
  return wide;
}

}  // namespace gpk::ops::elementwise
