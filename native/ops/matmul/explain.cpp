#include "ops/matmul/explain.h"

#include <algorithm>
#include <cmath>

#include "core/context.h"
#include "core/text.h"

namespace gpk::ops {
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

double rounded(double us) { return std::round(us * 100.0) / 100.0; }

std::string reason_text(const PlanDecision& decision) {
  switch (decision.reason) {
    case PlanReason::kMeasured:
      return cat("measured: ", rounded(decision.measured_us), " us on this machine");
    case PlanReason::kForced: return "forced";
    case PlanReason::kPolicy: return "policy: PYGPUKIT_MATMUL=cublaslt";
    default: break;
  }
  if (decision.plan.engine == MatmulEngine::cublaslt)
    return "model: of our own, only the general engine could make it";
  if (decision.machine.policy == MatmulPolicy::kNative)
    return "model: shortest predicted time (policy: native)";
  return "model: shortest predicted time";
}

std::string plan_lines(const PlanDecision& decision) {
  std::string text;
  for (const MatmulPlan& plan : decision.plans)
    text += cat(plan == decision.plan ? "  * " : "    ", to_string(plan), "  ",
                rounded(plan.predicted_us), " us\n");
  return text;
}

}  // namespace

MatmulExplanation explain_product(const Product& product, const std::optional<Machine>& machine) {
  MatmulExplanation result;
  result.desc = make_desc(product, &result.fit);
  const Machine where = machine ? *machine : machine_of(Context::get(product.c.device().index));
  result.text = cat("product   ", to_string(result.desc), "\n");
  if (result.fit != DescFit::kFits) {
    result.text += cat("plan      ", why_no_plan(result.fit), "\n");
    return result;
  }
  result.decision = decide_plan(result.desc, where);
  result.text += cat("machine   ", to_string(result.decision.machine), "\ncandidates (predicted)\n",
                     plan_lines(result.decision), "choice    ", to_string(result.decision.plan),
                     "\nwhy       ", reason_text(result.decision), "\n");
  return result;
}

}  // namespace gpk::ops
