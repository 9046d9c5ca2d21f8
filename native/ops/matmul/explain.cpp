#include "ops/matmul/explain.h"

#include "base/text.h"
#include "core/context.h"

namespace gpk::ops::gemm {
namespace {

const char* why_no_plan(DescFit fit) {
  switch (fit) {
    case DescFit::kManyBatches: return "operands are copied first: too many batch dimensions";
    case DescFit::kResidual:
      return "the residual is copied first: its batches are not evenly spaced";
    case DescFit::kScales: return "done matrix by matrix: scales differ by batch";
    default: return "";
  }
}

std::string reason_text(const PlanDecision& decision) {
  switch (decision.reason) {
    case plan::Reason::kMeasured:
      return cat("measured: ", plan::us_text(decision.measured_us), " us on this machine");
    case plan::Reason::kForced: return "forced";
    case plan::Reason::kPolicy: return "policy: PYGPUKIT_MATMUL=cublaslt";
    default: break;
  }
  if (decision.plan.engine == MatmulEngine::cublaslt)
    return "model: of our own engines, only general takes it";
  if (decision.machine.policy == MatmulPolicy::kNative)
    return "model: shortest predicted time (policy: native)";
  return "model: shortest predicted time";
}

}  // namespace

MatmulExplanation explain_gemm(const GemmCall& call, const std::optional<GemmMachine>& machine) {
  MatmulExplanation result;
  result.desc = make_desc(call, &result.fit);
  const GemmMachine where =
      machine ? *machine : gemm_machine_of(Context::get(call.c.device().index));
  result.text = cat("product   ", to_string(result.desc), "\n");
  if (result.fit != DescFit::kFits) {
    result.text += cat("plan      ", why_no_plan(result.fit), "\n");
    return result;
  }
  result.decision = decide_plan(result.desc, where);
  result.text += explain_decision(result.decision, reason_text(result.decision));
  return result;
}

}  // namespace gpk::ops::gemm
