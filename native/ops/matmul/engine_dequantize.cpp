// Packed weights times any number of rows: dequantised to x's dtype, then a GEMM of its own plan.
// FP8 with block scales on both sides, where tensor cores have none: as float32. Block formats on
// both sides (scaled_operands.h): as bfloat16, which holds them exactly.
#include <algorithm>

#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/block_scaled.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/packed_operand.h"
#include "ops/matmul/plan_cache.h"
#include "ops/matmul/scaled_operands.h"
#include "ops/quantize/quantize.h"

namespace gpk::ops::gemm {
namespace {

bool both_block_scaled(const MatmulDesc& d) { return is_block_scaled(d.a) && is_block_scaled(d.b); }

}  // namespace

bool takes_dequantize(const MatmulDesc& d) {
  if (d.groups.kind != GroupKind::kNone) return false;
  if (both_block_scaled(d)) return takes_result(d);
  if (both_scaled(d)) return d.dtype_c == DType::kFloat32 && d.epilogue == 0;
  if (!d.a.is_plain()) return false;
  if (d.a.dtype != DType::kFloat16 && d.a.dtype != DType::kBFloat16 && d.a.dtype != DType::kFloat32)
    return false;
  if (d.dtype_c != d.a.dtype && d.dtype_c != DType::kFloat32) return false;
  return packed_layout(d.b).has_value();
}

void propose_dequantize(const MatmulDesc& desc, const GemmMachine& machine,
                        std::vector<MatmulPlan>& plans) {
  if (!takes_dequantize(desc)) return;
  // Scales per row are part of the weights here: not where a pass after the GEMM applies them.
  if (desc.b.scales == plan::ScaleLayout::kColumn && (desc.epilogue & kEpilogueScales) == 0) return;
  const MatmulProblem& p = desc.problem;
  const DType dtype = both_block_scaled(desc) ? DType::kFloat32
                      : both_scaled(desc)     ? DType::kBFloat16
                                              : desc.a.dtype;
  const auto size = static_cast<double>(itemsize(dtype));
  const double weights = static_cast<double>(p.n) * static_cast<double>(p.k);
  const double moved = weights * (packed_layout(desc.b)->is_nibble() ? 0.5 : 1.0) +
                       2.0 * weights * size + static_cast<double>(p.m * (p.k + p.n)) * size;
  // Both operands of block scales become float32, and so does c at first.
  const int launches = both_block_scaled(desc) ? 4 : both_scaled(desc) ? 3 : 2;
  const double simt = plan::simt_flops_per_us(machine);
  const double flops_per_us =
      both_block_scaled(desc) ? simt : std::max(plan::tensor_flops_per_us(machine, dtype), simt);
  const double compute = 2.0 * weights * static_cast<double>(p.m) / flops_per_us;
  MatmulPlan plan;
  plan.engine = MatmulEngine::dequantize;
  plan.fused = true;
  plan.predicted_us = static_cast<float>(launches * plan::kLaunchUs +
                                         moved / plan::dram_bytes_per_us(machine) + compute);
  plans.push_back(plan);
}

void launch_dequantize(const GemmCall& call, const MatmulDesc& /*desc*/, const MatmulPlan& /*plan*/,
                       const char* op) {
  const InnerPlans inner;
  if (both_block_scaled(format_desc(call))) {
    const GemmCall dense = block_scaled_as_float(call, op);
    run_gemm(dense, op);
    if (call.c.dtype() != DType::kFloat32) copy_into(call.c, dense.c, op);
    return;
  }
  if (both_scaled(format_desc(call))) {
    run_gemm(scaled_as_dense(call, DType::kBFloat16, op), op);
    return;
  }
  GemmCall dense = call;
  dense.b = transpose(ops::dequantize(packed_operand(call), call.a.dtype(), std::nullopt, op), op);
  dense.quant_b = {};
  run_gemm(dense, op);
}

jit::KernelSpec spec_dequantize(const MatmulDesc& /*desc*/, const MatmulPlan& /*plan*/) {
  return {};
}

void enumerate_dequantize(std::vector<jit::KernelSpec>& /*specs*/) {}

}  // namespace gpk::ops::gemm
