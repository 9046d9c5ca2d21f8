#include "ops/matmul/plan.h"

#include <algorithm>

#include "base/text.h"
#include "jit/bundle.h"
#include "ops/matmul/engine_gemv.h"
#include "ops/matmul/finish.h"
#include "ops/matmul/packed_operand.h"
#include "plan/candidates.h"

namespace gpk::ops::gemm {
namespace {

void propose_all(const MatmulDesc& desc, const GemmMachine& machine,
                 std::vector<MatmulPlan>& plans) {
#define GPK_ENGINE(name) propose_##name(desc, machine, plans);
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  keep_loadable(desc, machine, plans);
}

void launch_engine(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                   const char* op) {
  switch (plan.engine) {
#define GPK_ENGINE(name) \
  case MatmulEngine::name: launch_##name(call, desc, plan, op); break;
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  }
}

// Engines sum in orders of their own, and which is the fastest depends on the number of rows; the
// first engine that takes the GEMM at all does not.
void keep_one_engine(std::vector<MatmulPlan>& plans) {
  MatmulEngine first = MatmulEngine::cublaslt;
  for (const MatmulPlan& plan : plans) first = std::min(first, plan.engine);
  std::erase_if(plans, [&](const MatmulPlan& plan) { return plan.engine != first; });
}

// Room for what raw_desc() describes.
Array raw_result(const MatmulDesc& raw, Device device, const char* op) {
  const MatmulProblem& p = raw.problem;
  Dims shape = Dims::filled(p.batch_shape.size() + 2, 0);
  std::copy(p.batch_shape.begin(), p.batch_shape.end(), shape.data());
  shape[shape.size() - 2] = p.m;
  shape[shape.size() - 1] = p.n;
  return Array::empty(shape, raw.dtype_c, device, op);
}

}  // namespace

const char* name(MatmulEngine engine) {
  static constexpr const char* kNames[] = {
#define GPK_ENGINE(name) #name,
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  };
  return kNames[static_cast<int>(engine)];
}

std::string to_string(const MatmulPlan& plan) {
  std::string text = cat(name(plan.engine), "(kernel=", static_cast<int>(plan.kernel));
  if (plan.tile_m != 0) text += cat(", tile=", plan.tile_m, "x", plan.tile_n, "x", plan.tile_k);
  if (plan.stages != 0) text += cat(", stages=", plan.stages);
  if (plan.cluster > 1) text += cat(", cluster=", plan.cluster);
  if (plan.group != 0) text += cat(", group=", plan.group);
  if (plan.splits > 1) text += cat(", splits=", plan.splits, " of ", plan.k_per_split);
  if (plan.transpose) text += ", transpose";
  text += plan.fused ? ")" : ", unfused)";
  return text;
}

jit::KernelSpec plan_spec(const MatmulDesc& desc, const MatmulPlan& plan) {
  switch (plan.engine) {
#define GPK_ENGINE(name) \
  case MatmulEngine::name: return spec_##name(desc, plan);
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  }
  return {};
}

void keep_loadable(const MatmulDesc& desc, const GemmMachine& machine,
                   std::vector<MatmulPlan>& plans) {
  if (machine.jit) return;
  std::erase_if(plans, [&](const MatmulPlan& plan) {
    // Which variants are bundled depends on m, which the choice must not.
    if (desc.batch_invariant && plan.engine == MatmulEngine::packed)
      return !is_bundled(*packed_layout(desc.b));
    if (desc.batch_invariant)
      return plan.engine != MatmulEngine::general && plan.engine != MatmulEngine::dequantize;
    const jit::KernelSpec spec = plan_spec(desc, plan);
    return spec.file != nullptr && !jit::in_bundle(spec.file, spec.expression, machine.sm);
  });
}

std::vector<MatmulPlan> propose_matmul(const MatmulDesc& desc, const GemmMachine& machine) {
  std::vector<MatmulPlan> plans;
  if (desc.few_rows) plans = propose_few_rows(desc, machine);
  if (!plans.empty()) return plans;
  if (desc.gated || desc.normed) throw Error(cat("matmul: no engine takes ", to_string(desc)));
  propose_all(desc, machine, plans);
  if (desc.epilogue == 0) {
    for (MatmulPlan& plan : plans) plan.fused = true;
  } else {
    std::erase_if(plans, [](const MatmulPlan& plan) { return !plan.fused; });
    std::vector<MatmulPlan> raw;
    propose_all(raw_desc(desc), machine, raw);
    const auto pass_us = static_cast<float>(finish_us(desc, machine, 1));
    for (MatmulPlan& plan : raw) {
      if (plan.engine == MatmulEngine::general) continue;  // has its own finish pass
      plan.fused = false;
      plan.predicted_us += pass_us;
      plans.push_back(plan);
    }
  }
  if (desc.batch_invariant) keep_one_engine(plans);
  plan::sort_by_time(plans, &MatmulPlan::engine);
  return plans;
}

MatmulPlan choose_plan(const std::vector<MatmulPlan>& plans, MatmulPolicy policy) {
  const MatmulPlan* library = nullptr;
  const MatmulPlan* ours = nullptr;
  bool only_general = true;
  for (const MatmulPlan& plan : plans) {
    const MatmulPlan*& best = plan.engine == MatmulEngine::cublaslt ? library : ours;
    if (best == nullptr) best = &plan;
    if (plan.engine != MatmulEngine::cublaslt && plan.engine != MatmulEngine::general)
      only_general = false;
  }
  if (library == nullptr || policy == MatmulPolicy::kNative) return *ours;
  if (policy == MatmulPolicy::kCublasLt) return *library;
  return only_general && library->predicted_us < ours->predicted_us ? *library : *ours;
}

MatmulPlan plan_matmul(const MatmulDesc& desc, const GemmMachine& machine) {
  return choose_plan(propose_matmul(desc, machine), machine.policy);
}

void launch_plan(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                 const char* op) {
  if (plan.fused) {
    launch_engine(call, desc, plan, op);
    return;
  }
  const MatmulDesc raw = raw_desc(desc);
  const Array sums = raw_result(raw, call.c.device(), op);
  GemmCall without = call;
  without.c = sums;
  without.epilogue = {};
  if (desc.a.scales_in_epilogue()) without.quant_a = {};
  if (desc.b.scales_in_epilogue()) without.quant_b = {};
  launch_engine(without, raw, plan, op);
  launch_finish(call, desc, sums, 1, false);
}

}  // namespace gpk::ops::gemm
