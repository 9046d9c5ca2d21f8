// Packed weights times up to 64 rows of float16 or bfloat16: dequantised in registers.
#include <algorithm>
#include <bit>
#include <set>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/finish.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/packed_groups.h"
#include "ops/matmul/packed_operand.h"
#include "ops/matmul/plan.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
constexpr std::int64_t kSplitStep = 1024;  // of k: what the warps of a block read at a time
constexpr std::int64_t kMaxSplits = 8;     // blocks of a cluster
constexpr unsigned kPackedThreads = 256;

struct PackedVariant {
  int code, scale_code;
  int group;  // 0: the epilogue has the scales
  DType dtype;
  int tile_m, tile_n;
  bool grouped = false;
};

std::uint64_t packed_bits(const PackedVariant& v) {
  return plan::KeyBuilder()
      .field("code", v.code, 4)
      .field("scale", v.scale_code, 2)
      .field("group", v.group, 8)
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("tile_m", v.tile_m, 8)
      .field("tile_n", v.tile_n, 8)
      .field("grouped", v.grouped, 1)
      .key();
}

jit::KernelSpec packed_spec(const PackedVariant& v) {
  jit::KernelSpec spec;
  spec.kernel = kPackedKernel;
  spec.variant = packed_bits(v);
  spec.op = "linear";
  spec.file = "matmul/gemv_packed.cuh";
  spec.bundled = false;
  spec.expression =
      cat("gpk::gemv_packed_kernel<", v.code, ", ", info(v.dtype).cuda_name, ", ", v.tile_m / 8,
          ", ", v.tile_n / 16, ", ", v.group, ", ", v.scale_code, ", ", v.grouped, ">");
  return spec;
}

PackedVariant packed_variant(const MatmulDesc& desc, const MatmulPlan& plan) {
  const PackedLayout layout = *packed_layout(desc.b);
  return {layout.code(), layout.scale_code(), static_cast<int>(layout.group),
          desc.a.dtype,  plan.tile_m,         plan.tile_n};
}

// Groups smaller than what a quad reads have more scales in registers.
bool has_many_scales(const PackedLayout& layout) {
  return layout.group != 0 && layout.group < (layout.is_nibble() ? 128 : 64);
}

// Rows of w of a block that registers allow without spills.
int widest_tile(const PackedLayout& layout, int tile_m) {
  if (layout.group == 0 && tile_m == 8) return 64;
  return tile_m == 8 || (tile_m <= 32 && !has_many_scales(layout)) ? 32 : 16;
}

constexpr int kNarrowTile = 16;  // where there are too few rows to fill the GPU

int grouped_tile_m(std::int64_t rows) { return rows <= 64 ? 8 : 16; }

bool is_frozen(const PackedWeight& weight) {
  for (const auto& [part, array] : weight.parts())
    if (array != nullptr && !array->buffer()->frozen()) return false;
  return true;
}

kernels::PackedGemvArgs packed_args(const PackedWeight& weight) {
  kernels::PackedGemvArgs args{};
  args.gemv.w = address(weight.values);
  args.gemv.n = weight.n();
  args.gemv.k = weight.k();
  args.gemv.w_pitch = weight.values.strides()[0];
  args.gemv.k_warps = kPackedThreads / 32;
  args.scales = address(*weight.scales);
  args.zeros = address(weight.zero_points);
  args.tensor_scale = address(weight.tensor_scale);
  args.scale_row = weight.scales->shape()[1];
  args.scale_shift = weight.layout.blocks ? 7 : 0;
  return args;
}

}  // namespace

bool takes_packed(const MatmulDesc& d) {
  if (d.groups.kind != GroupKind::kNone || !d.a.is_plain()) return false;
  if (d.a.dtype != DType::kFloat16 && d.a.dtype != DType::kBFloat16) return false;
  if (d.dtype_c != d.a.dtype && d.dtype_c != DType::kFloat32) return false;
  const auto layout = packed_layout(d.b);
  return layout && !layout->is_sparse();
}

void propose_packed(const MatmulDesc& desc, const GemmMachine& machine,
                    std::vector<MatmulPlan>& plans) {
  if (!takes_packed(desc) || machine.sm < 80) return;
  // Many rows must sum in the same order: the engine dequantize does that.
  if (desc.batch_invariant && !desc.few_rows) return;
  const MatmulProblem& p = desc.problem;
  if (!p.batch_shape.empty() || p.m > kMaxFewRows || p.k % 8 != 0 || p.k == 0 || p.k >= kMaxSize ||
      p.n >= kMaxSize || !desc.b_k_major())
    return;
  const PackedLayout layout = *packed_layout(desc.b);
  MatmulPlan plan;
  plan.engine = MatmulEngine::packed;
  plan.fused = true;
  plan.tile_m = 8 * static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(p.m, 8))));
  // Tiles may depend on m: they do not change the order of summation. Splits do, and must not.
  plan.tile_n = widest_tile(layout, plan.tile_m);
  if (plan.tile_m <= 16 && ceil_div(p.n, plan.tile_n) < 2 * std::int64_t{machine.sms})
    plan.tile_n = kNarrowTile;
  const std::int64_t wanted = ceil_div(2 * std::int64_t{machine.sms}, ceil_div(p.n, 16));
  const std::int64_t steps = ceil_div(p.k, kSplitStep);
  const auto splits = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(std::min(wanted, steps), 1, kMaxSplits))));
  plan.k_per_split = ceil_div(steps, splits) * kSplitStep;
  plan.splits = ceil_div(p.k, plan.k_per_split);
  plan.cluster = machine.sm >= 90 ? static_cast<std::int32_t>(plan.splits) : 1;
  const double bytes = static_cast<double>(p.n) * static_cast<double>(layout.row_bytes(p.k));
  const double rows = static_cast<double>(p.m * p.k * 2) * static_cast<double>(p.n) / plan.tile_n;
  // Rows of x come from the L2, at about twice the rate of DRAM.
  const double us = (bytes + 0.5 * rows) / plan::dram_bytes_per_us(machine);
  plan.predicted_us = static_cast<float>(plan::kLaunchUs + 2.0 + 1.1 * us);
  if (plan.splits > 1 && plan.cluster == 1)
    plan.predicted_us += static_cast<float>(finish_us(desc, machine, plan.splits));
  plans.push_back(plan);
}

void launch_packed(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                   const char* op) {
  Context& context = Context::get(call.c.device().index);
  const PackedVariant variant = packed_variant(desc, plan);
  const Kernel& code = kernel(context, {Family::matmul, kPackedKernel, packed_bits(variant)},
                              [&] { return packed_spec(variant); });
  const MatmulProblem& p = desc.problem;
  const PackedWeight weight = packed_operand(call);
  const bool direct = desc.a_k_major() && desc.align_a == 16;
  const Array x = direct ? call.a : copy_as(call.a, call.a.dtype(), op);
  kernels::PackedGemvArgs args = packed_args(weight);
  args.gemv.x = address(x);
  args.gemv.y = address(call.c);
  args.gemv.m = p.m;
  args.gemv.x_m = direct ? p.a_m : p.k;
  args.gemv.y_m = p.c_m;
  args.gemv.y_n = p.c_n;
  args.gemv.k_per_split = plan.k_per_split;
  args.gemv.flags = desc.epilogue | (desc.dtype_c != desc.a.dtype ? kernels::kGemvFloatOut : 0u);
  args.prefetch = is_frozen(weight) ? 1 : 0;
  std::optional<Array> partial;
  if (plan.splits > 1 && plan.cluster == 1) {
    partial = make_partial(desc, plan.splits, call.c.device(), op);
    args.gemv.partial = address(partial);
  }
  LaunchConfig config;
  config.block[0] = kPackedThreads;
  config.grid[0] = static_cast<unsigned>(ceil_div(p.n, plan.tile_n));
  config.grid[1] = static_cast<unsigned>(plan.splits);
  if (plan.cluster > 1) {
    config.cluster[0] = config.cluster[2] = 1;
    config.cluster[1] = static_cast<unsigned>(plan.cluster);
  }
  config.programmatic = context.traits().sm >= 90;
  EpilogueArgs epilogue = make_epilogue_args(call, desc.steps);
  void* params[] = {&args, &epilogue};
  auto arrays = arrays_of(call, partial ? &*partial : nullptr);
  arrays[0] = &x;
  submit(code, config, arrays, params);
  if (partial) launch_finish(call, desc, *partial, plan.splits, false);
}

bool launch_packed_groups(const Array& x, const PackedWeight& w, const Array& sizes,
                          const Array& result, const char* op) {
  Context& context = Context::get(x.device().index);
  const int tile_m = grouped_tile_m(x.shape()[0]);
  const PackedVariant variant{w.layout.code(),
                              w.layout.scale_code(),
                              static_cast<int>(w.layout.group),
                              x.dtype(),
                              tile_m,
                              widest_tile(w.layout, tile_m),
                              true};
  const bool takes = (x.dtype() == DType::kFloat16 || x.dtype() == DType::kBFloat16) &&
                     w.k() % 8 == 0 && w.k() < kMaxSize && context.traits().sm >= 80 &&
                     (jit::jit_available() || is_bundled(w.layout));
  if (!takes) return false;
  const Kernel& code = kernel(context, {Family::matmul, kPackedKernel, packed_bits(variant)},
                              [&] { return packed_spec(variant); });
  // Rows of x are read 16 bytes at a time.
  const bool direct = x.device_ptr() % 16 == 0;
  const Array rows = direct ? x : copy_as(x, x.dtype(), op);
  kernels::PackedGemvArgs args = packed_args(w);
  args.gemv.x = address(rows);
  args.gemv.y = address(result);
  args.gemv.m = x.shape()[0];
  args.gemv.x_m = w.k();
  args.gemv.y_m = w.n();
  args.gemv.y_n = 1;
  args.gemv.k_per_split = ceil_div(w.k(), kSplitStep) * kSplitStep;
  args.sizes = address(sizes);
  args.w_expert = w.n() * w.values.strides()[0];
  args.scale_expert = w.n() * args.scale_row;
  LaunchConfig config;
  config.block[0] = kPackedThreads;
  config.grid[0] = static_cast<unsigned>(ceil_div(w.n(), std::int64_t{variant.tile_n}));
  config.grid[2] = static_cast<unsigned>(w.shape[0]);
  config.programmatic = context.traits().sm >= 90;
  EpilogueArgs epilogue;
  void* params[] = {&args, &epilogue};
  submit(code, config,
         {&rows, &w.values, &*w.scales, &sizes, &result, w.zero_points ? &*w.zero_points : nullptr,
          w.tensor_scale ? &*w.tensor_scale : nullptr},
         params);
  return true;
}

jit::KernelSpec spec_packed(const MatmulDesc& desc, const MatmulPlan& plan) {
  return packed_spec(packed_variant(desc, plan));
}

void enumerate_packed(std::vector<jit::KernelSpec>& specs) {
  const auto add = [&](const PackedLayout& layout) {
    const auto add_tile = [&](DType dtype, int tile_m, int tile_n, bool grouped) {
      specs.push_back(
          packed_spec({layout.code(), layout.scale_code(), static_cast<int>(layout.group), dtype,
                       tile_m, tile_n, grouped}));
      specs.back().bundled = is_bundled(layout);
    };
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      for (const int tile_m : {8, 16, 32, 64})
        for (const int tile_n : std::set{widest_tile(layout, tile_m),
                                         tile_m <= 16 ? kNarrowTile : widest_tile(layout, tile_m)})
          add_tile(dtype, tile_m, tile_n, false);
      for (const int tile_m : {8, 16}) add_tile(dtype, tile_m, widest_tile(layout, tile_m), true);
    }
  };
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kInt4})
    for (const bool zero_points : {false, true})
      for (const std::int64_t group : {0, 32, 64, 128}) add({format, group, zero_points, false});
  add({QuantFormat::kFp8, 0, false, false});
  add({QuantFormat::kFp8, 128, false, true});
  add({QuantFormat::kFp8E5M2, 0, false, false});
  add({QuantFormat::kNvfp4, 16, false, false});
  add({QuantFormat::kMxfp4, 32, false, false});
  add({QuantFormat::kMxfp8, 32, false, false});
  add({QuantFormat::kNf4, 64, false, false});
}

}  // namespace gpk::ops::gemm
