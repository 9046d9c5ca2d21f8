// FP8 times FP8 with scales per 1 x 128 of a and 128 x 128 of b (SM89 on): sums of 128 of k by
// mma.sync, scaled and added in float32. Kernel: kernels/matmul/gemm_block_scaled.cuh.
#include "ops/matmul/block_scaled.h"

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/gemm_tiles.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/quantize/quantize.h"

namespace gpk::ops::gemm {
namespace {

using plan::ScaleLayout;

constexpr DType kOwnResult = DType::kBFloat16;
constexpr int kNumKernels = 2;

struct BlockScaledKernel {
  GemmTile tile;
  int warp_m, warp_n;
};

// Twice the accumulators of gemm_mma limit the tile: 128 x 128 needs eight warps.
const BlockScaledKernel& kernel_row(int kernel) {
  static constexpr BlockScaledKernel kRows[kNumKernels] = {
      {{128, 128, 128, 3, 256, 3 * 256 * 128, 1, 0.80, 1.0}, 64, 32},
      {{64, 64, 128, 3, 128, 3 * 128 * 128, 3, 0.60, 0.5}, 32, 32},
  };
  return kRows[kernel];
}

// SM90 and SM100 multiply float16 instead, at half the rate of FP8.
double rate(const GemmMachine& machine) {
  double share = 0.85;
  if (machine.sm >= 90 && machine.sm < 100) share = 0.24;
  if (machine.sm >= 100 && machine.sm < 120) share = 0.1;
  return share * plan::tensor_flops_per_us(machine, DType::kFloat8E4M3FN);
}

jit::KernelSpec spec_of(int kernel) {
  const BlockScaledKernel& row = kernel_row(kernel);
  jit::KernelSpec spec;
  spec.file = "matmul/gemm_block_scaled.cuh";
  spec.kernel = static_cast<std::uint8_t>(kBlockScaledKernel + kernel);
  spec.op = "scaled_matmul";
  spec.bundled = false;
  spec.exact_sms = {89, 90, 100, 120};
  spec.expression =
      cat("gpk::gemm_block_scaled_kernel<", info(kOwnResult).cuda_name, ", ", row.tile.m, ", ",
          row.tile.n, ", ", row.warp_m, ", ", row.warp_n, ", ", row.tile.stages, ">");
  return spec;
}

bool a_is_direct(const MatmulDesc& desc) { return desc.a_k_major() && desc.align_a == 16; }
bool b_is_direct(const MatmulDesc& desc) { return desc.b_k_major() && desc.align_b == 16; }

// The desc with operands as block_scaled_rows() copies them.
MatmulDesc direct_desc(const MatmulDesc& desc) {
  MatmulDesc direct = desc;
  const std::int64_t pitch = ceil_div(desc.problem.k, 16) * 16;
  if (!a_is_direct(desc)) {
    direct.problem.a_m = pitch;
    direct.problem.a_k = 1;
    direct.align_a = 16;
  }
  if (!b_is_direct(desc)) {
    direct.problem.b_n = pitch;
    direct.problem.b_k = 1;
    direct.align_b = 16;
  }
  return direct;
}

}  // namespace

bool takes_block_scaled(const MatmulDesc& d) {
  return d.groups.kind == GroupKind::kNone && is_block_scaled(d.a) && is_block_scaled(d.b) &&
         d.a.scales == ScaleLayout::kBlocksOfK && d.b.scales == ScaleLayout::kBlocks128x128 &&
         takes_result(d);
}

void propose_block_scaled(const MatmulDesc& desc, const GemmMachine& machine,
                          std::vector<MatmulPlan>& plans) {
  if (!takes_block_scaled(desc) || machine.sm < 89 || !desc.problem.batch_shape.empty()) return;
  const OrientedDesc direct{false, direct_desc(desc)};
  if (!tiles_fit(direct.desc)) return;
  const auto copied = static_cast<double>((a_is_direct(desc) ? 0 : desc.problem.m) +
                                          (b_is_direct(desc) ? 0 : desc.problem.n)) *
                      static_cast<double>(desc.problem.k);
  for (int i = 0; i < kNumKernels; ++i) {
    const std::size_t before = plans.size();
    propose_tile(direct, machine, MatmulEngine::block_scaled, static_cast<std::uint8_t>(i),
                 kernel_row(i).tile, rate(machine), kOwnResult, plans);
    if (copied > 0.0 && plans.size() > before)
      plans.back().predicted_us +=
          static_cast<float>(plan::kLaunchUs + 2.0 * copied / plan::dram_bytes_per_us(machine));
  }
}

void launch_block_scaled(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                         const char* op) {
  Context& context = Context::get(call.c.device().index);
  const Kernel& code = kernel(
      context, {Family::matmul, static_cast<std::uint8_t>(kBlockScaledKernel + plan.kernel), 0},
      [&] { return spec_of(plan.kernel); });
  GemmCall direct = call;
  if (!a_is_direct(desc)) direct.a = block_scaled_rows(call.a, call.quant_a, op).values;
  if (!b_is_direct(desc))
    direct.b = block_scaled_rows(transpose(call.b, op), call.quant_b, op).values;
  const Array& scale_a = *call.quant_a.scales;
  const Array& scale_b = *call.quant_b.scales;
  kernels::BlockScaleArgs scales{address(scale_a),     address(scale_b),     scale_a.strides()[0],
                                 scale_a.strides()[1], scale_b.strides()[0], scale_b.strides()[1]};
  launch_tiles(direct, direct_desc(desc), plan, code, kernel_row(plan.kernel).tile, kOwnResult, op,
               &scales);
}

jit::KernelSpec spec_block_scaled(const MatmulDesc& /*desc*/, const MatmulPlan& plan) {
  return spec_of(plan.kernel);
}

void enumerate_block_scaled(std::vector<jit::KernelSpec>& specs) {
  for (int i = 0; i < kNumKernels; ++i) specs.push_back(spec_of(i));
}

}  // namespace gpk::ops::gemm
