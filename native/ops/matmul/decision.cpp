#include "ops/matmul/decision.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/matmul/cublaslt.h"
#include "ops/matmul/engine_cublaslt.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/tuning.h"

namespace gpk::ops::gemm {
namespace {

// Loading the library takes a tenth of a second or more: not for GEMMs shorter than this.
constexpr float kWorthLoadingUs = 30.0f;

bool could_ask(const MatmulDesc& desc, int sm) {
  return cublaslt_can(desc, sm) || (desc.epilogue != 0 && cublaslt_can(raw_desc(desc), sm));
}

GemmMachine with_cublaslt(const MatmulDesc& desc, GemmMachine machine) {
  if (machine.policy != MatmulPolicy::kNative && could_ask(desc, machine.sm))
    machine.cublaslt = find_cublaslt().library != nullptr;
  return machine;
}

std::vector<MatmulPlan> propose_with_cublaslt(const MatmulDesc& desc, const GemmMachine& machine) {
  std::vector<MatmulPlan> plans = propose_matmul(desc, machine);
  std::erase_if(plans, [&](const MatmulPlan& plan) { return cublaslt_refused(desc, plan); });
  return plans;
}

}  // namespace

PlanDecision decide_plan(const MatmulDesc& desc, const GemmMachine& machine, const char* op) {
  check_formats(desc, op);
  PlanDecision decision;
  if (const ForcedPlan* forced = ForcedPlan::current()) {
    decision.machine = with_cublaslt(desc, machine);
    decision.machine.every_plan = true;
    decision.plans = propose_with_cublaslt(desc, decision.machine);
    forced->choose(decision, "matmul");
    return decision;
  }
  decision.machine = machine;
  decision.plans = propose_matmul(desc, machine);
  if (decision.plans.empty()) throw Error(cat(op, ": no engine runs ", to_string(desc)));
  const auto tuned =
      machine.policy == MatmulPolicy::kCublasLt ? std::nullopt : find_tuned(desc, machine);
  const MatmulPlan model = choose_plan(decision.plans, machine.policy);
  const bool measured_lt = tuned && tuned->plan.engine == MatmulEngine::cublaslt;
  if (machine.policy == MatmulPolicy::kCublasLt || measured_lt ||
      (model.engine == MatmulEngine::general && model.predicted_us > kWorthLoadingUs)) {
    decision.machine = with_cublaslt(desc, machine);
    if (decision.machine.cublaslt) decision.plans = propose_with_cublaslt(desc, decision.machine);
  }
  decision.plan = choose_plan(decision.plans, machine.policy);
  if (machine.policy == MatmulPolicy::kCublasLt && decision.plan.engine == MatmulEngine::cublaslt)
    decision.reason = plan::Reason::kPolicy;
  if (!tuned || (measured_lt && machine.policy == MatmulPolicy::kNative)) return decision;
  plan::take_measured(decision, tuned->plan, tuned->us);
  return decision;
}

std::vector<MatmulPlan> all_candidates(const MatmulDesc& desc, const GemmMachine& machine) {
  return propose_with_cublaslt(desc, with_cublaslt(desc, machine));
}

}  // namespace gpk::ops::gemm
