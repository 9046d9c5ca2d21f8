// mxfp8, mxfp4 or nvfp4 on both sides: mma.sync with block scales (SM120). Sums in float32.
// Kernel: kernels/matmul/gemm_scaled_mma.cuh. Compiled for SM120 and simulated, never run on one.
// SM100 has such products in tcgen05 alone: the engine dequantize runs them there.
#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/gemm_tiles.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/packed_operand.h"
#include "ops/matmul/scaled_operands.h"

namespace gpk::ops::gemm {
namespace {

constexpr DType kScaledResult = DType::kFloat32;
constexpr int kNumScaledTiles = 2;
constexpr int kScaledSm = 120;

struct ScaledTile {
  GemmTile tile;
  int warp_m, warp_n;
};

const ScaledTile& scaled_tile(int kernel) {
  static constexpr ScaledTile kRows[kNumScaledTiles] = {
      {{128, 128, 128, 3, 256, 3 * 256 * 128, 1, 0.85, 1.0}, 64, 32},
      {{64, 64, 128, 4, 128, 4 * 128 * 128, 1, 0.55, 1.0}, 32, 32},
  };
  return kRows[kernel];
}

std::uint64_t scaled_bits(const PackedLayout& layout) {
  return static_cast<std::uint64_t>(layout.format);
}

jit::KernelSpec scaled_spec(int kernel, const PackedLayout& layout) {
  const ScaledTile& row = scaled_tile(kernel);
  jit::KernelSpec spec;
  spec.file = "matmul/gemm_scaled_mma.cuh";
  spec.kernel = static_cast<std::uint8_t>(kScaledMmaKernel + kernel);
  spec.variant = scaled_bits(layout);
  spec.op = "linear";
  spec.bundled = false;
  spec.exact_sms = {kScaledSm};
  spec.expression = cat("gpk::gemm_scaled_mma_kernel<", layout.code(), ", ", layout.scale_code(),
                        ", ", row.tile.m, ", ", row.tile.n, ", ", row.warp_m, ", ", row.warp_n,
                        ", ", row.tile.stages, ">");
  return spec;
}

// The GEMM of the operands' bytes: K is half as long where two values share one.
MatmulDesc byte_desc(const MatmulDesc& desc, const PackedLayout& layout) {
  MatmulDesc bytes = desc;
  MatmulProblem& p = bytes.problem;
  const std::int64_t pitch = layout.row_bytes(p.k);
  p.k = ceil_div(p.k, layout.is_nibble() ? 2 : 1);
  p.a_m = p.b_n = pitch;
  p.a_k = p.b_k = 1;
  bytes.a = bytes.b = {.dtype = DType::kFloat8E4M3FN};
  bytes.align_a = bytes.align_b = 16;
  if (layout.format == QuantFormat::kNvfp4) {  // tensor scales
    bytes.epilogue = kEpilogueScales;
    bytes.steps.scale_a = 1;
    bytes.steps.scale_b = 0;
  }
  return bytes;
}

// Kernels read scales four at a time.
Array aligned_scales(const Array& scales, const char* op) {
  return scales.device_ptr() % 4 == 0 ? scales : copy_as(scales, scales.dtype(), op);
}

}  // namespace

bool takes_scaled_mma(const MatmulDesc& d) {
  return both_scaled(d) && d.dtype_c == kScaledResult && d.epilogue == 0;
}

void propose_scaled_mma(const MatmulDesc& desc, const GemmMachine& machine,
                        std::vector<MatmulPlan>& plans) {
  if (!takes_scaled_mma(desc) || machine.sm != kScaledSm) return;
  if (!desc.problem.batch_shape.empty() || desc.problem.k == 0) return;
  if (desc.align_a < 16 || desc.align_b < 16) return;
  const OrientedDesc bytes{false, byte_desc(desc, *scaled_layout(desc))};
  if (!tiles_fit(bytes.desc)) return;
  // Of bytes: e2m1 has twice the values in a byte, and twice the rate. Not measured.
  const double rate = 0.85 * plan::tensor_flops_per_us(machine, DType::kFloat8E4M3FN);
  for (int i = 0; i < kNumScaledTiles; ++i)
    propose_tile(bytes, machine, MatmulEngine::scaled_mma, static_cast<std::uint8_t>(i),
                 scaled_tile(i).tile, rate, kScaledResult, plans);
}

void launch_scaled_mma(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                       const char* op) {
  const PackedLayout layout = *scaled_layout(desc);
  Context& context = Context::get(call.c.device().index);
  const Kernel& code =
      kernel(context,
             {Family::matmul, static_cast<std::uint8_t>(kScaledMmaKernel + plan.kernel),
              scaled_bits(layout)},
             [&] { return scaled_spec(plan.kernel, layout); });
  const Array scales_a = aligned_scales(*call.quant_a.scales, op);
  const Array scales_b = aligned_scales(*call.quant_b.scales, op);
  GemmCall bytes = call;
  bytes.a = scaled_rows(call.a, call.quant_a, layout).values;
  bytes.b = scaled_rows(transposed_view(call.b), call.quant_b, layout).values;
  set_epilogue_scales(bytes, call);
  bytes.quant_a.tensor_scale = scales_a;  // for submit(): the kernel reads them too
  bytes.quant_b.tensor_scale = scales_b;
  kernels::ScaledTileArgs scaled{address(scales_a), address(scales_b), scales_a.shape()[1]};
  launch_tiles(bytes, byte_desc(desc, layout), plan, code, scaled_tile(plan.kernel).tile,
               kScaledResult, op, &scaled);
}

jit::KernelSpec spec_scaled_mma(const MatmulDesc& desc, const MatmulPlan& plan) {
  return scaled_spec(plan.kernel, *scaled_layout(desc));
}

void enumerate_scaled_mma(std::vector<jit::KernelSpec>& specs) {
  for (const QuantFormat format : {QuantFormat::kMxfp8, QuantFormat::kMxfp4, QuantFormat::kNvfp4})
    for (int i = 0; i < kNumScaledTiles; ++i)
      specs.push_back(scaled_spec(i, make_layout(format, std::nullopt, false, false, "matmul")));
}

}  // namespace gpk::ops::gemm
