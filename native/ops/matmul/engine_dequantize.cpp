// Packed weights times any number of rows: dequantised to x's dtype, then a GEMM of its own plan.
// FP8 with block scales on both sides, where tensor cores have none: as float32. Block formats on
// both sides (scaled_operands.h): as bfloat16, which holds them exactly.
#include <algorithm>
#include <numeric>

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

constexpr double kDequantizeShare = 0.8;  // of memory's rate

bool both_block_scaled(const MatmulDesc& d) { return is_block_scaled(d.a) && is_block_scaled(d.b); }

// The GEMM that launch_dequantize() runs on the dense weights.
MatmulDesc dense_desc(const MatmulDesc& desc) {
  MatmulDesc dense = desc;
  MatmulProblem& p = dense.problem;
  dense.b = {.dtype = desc.a.dtype};
  dense.epilogue &= ~kEpilogueScales;
  p.b_k = 1;
  p.b_n = p.k;
  const std::int64_t pitch_bytes = p.k * static_cast<std::int64_t>(itemsize(desc.a.dtype));
  dense.align_b = static_cast<std::uint8_t>(std::gcd(pitch_bytes, std::int64_t{16}));
  return dense;
}

double packed_us(const MatmulDesc& desc, const GemmMachine& machine) {
  const MatmulProblem& p = desc.problem;
  const double codes = packed_layout(desc.b)->is_nibble() ? 0.5 : 1.0;
  const double bytes = static_cast<double>(p.n) * static_cast<double>(p.k) *
                       (codes + static_cast<double>(itemsize(desc.a.dtype)));
  return plan::kLaunchUs + bytes / (kDequantizeShare * plan::dram_bytes_per_us(machine)) +
         static_cast<double>(plan_matmul(dense_desc(desc), machine).predicted_us);
}

// Operands that are both quantised become dense, and so does c at first.
double both_scaled_us(const MatmulDesc& desc, const GemmMachine& machine) {
  const bool floats = both_block_scaled(desc);
  const DType dtype = floats ? DType::kFloat32 : DType::kBFloat16;
  const MatmulProblem& p = desc.problem;
  const auto size = static_cast<double>(itemsize(dtype));
  const double weights = static_cast<double>(p.n) * static_cast<double>(p.k);
  const double moved = weights * (packed_layout(desc.b)->is_nibble() ? 0.5 : 1.0) +
                       2.0 * weights * size + static_cast<double>(p.m * (p.k + p.n)) * size;
  const double simt = plan::simt_flops_per_us(machine);
  const double flops_per_us =
      floats ? simt : std::max(plan::tensor_flops_per_us(machine, dtype), simt);
  return (floats ? 4 : 3) * plan::kLaunchUs + moved / plan::dram_bytes_per_us(machine) +
         2.0 * weights * static_cast<double>(p.m) / flops_per_us;
}

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
  const bool both = both_block_scaled(desc) || both_scaled(desc);
  MatmulPlan plan;
  plan.engine = MatmulEngine::dequantize;
  plan.fused = true;
  plan.predicted_us =
      static_cast<float>(both ? both_scaled_us(desc, machine) : packed_us(desc, machine));
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
