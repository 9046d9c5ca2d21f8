#include "ops/matmul/decision.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"

#include "ops/matmul/cublaslt.h"
#include "ops/matmul/engine_cublaslt.h"
#include "ops/matmul/tuning.h"

namespace gpk::ops {
namespace {

// Loading the library takes a tenth of a second or more: not for products shorter than this.
constexpr float kWorthLoadingUs = 30.0f;

bool could_ask(const MatmulDesc& desc, int sm) {
  return cublaslt_can(desc, sm) || (desc.epilogue != 0 && cublaslt_can(raw_desc(desc), sm));
}

Machine with_cublaslt(const MatmulDesc& desc, Machine machine) {
  if (machine.policy != MatmulPolicy::kNative && could_ask(desc, machine.sm))
    machine.cublaslt = find_cublaslt().library != nullptr;
  return machine;
}

std::vector<MatmulPlan> propose_with_cublaslt(const MatmulDesc& desc, const Machine& machine) {
  std::vector<MatmulPlan> plans = propose_matmul(desc, machine);
  std::erase_if(plans, [&](const MatmulPlan& plan) { return cublaslt_refused(desc, plan); });
  return plans;
}

thread_local const ForcedPlan* t_forced = nullptr;

PlanDecision forced_decision(const MatmulDesc& desc, const Machine& machine,
                             const std::string& prefix) {
  PlanDecision decision;
  decision.machine = with_cublaslt(desc, machine);
  decision.plans = propose_with_cublaslt(desc, decision.machine);
  decision.reason = PlanReason::kForced;
  std::string all;
  for (const MatmulPlan& plan : decision.plans) {
    const std::string text = to_string(plan);
    if (text.starts_with(prefix)) {
      decision.plan = plan;
      return decision;
    }
    all += cat("\n  ", text);
  }
  throw Error(cat("matmul: no plan starts with '", prefix, "'; there are", all));
}

}  // namespace

ForcedPlan::ForcedPlan(std::string prefix)
    : prefix_(std::move(prefix)), previous_(std::exchange(t_forced, this)) {}
ForcedPlan::~ForcedPlan() { t_forced = previous_; }
const ForcedPlan* ForcedPlan::current() noexcept { return t_forced; }

const char* name(PlanReason reason) {
  switch (reason) {
    case PlanReason::kMeasured: return "measured";
    case PlanReason::kPolicy: return "policy";
    case PlanReason::kForced: return "forced";
    default: return "model";
  }
}

PlanDecision decide_plan(const MatmulDesc& desc, const Machine& machine) {
  if (t_forced != nullptr) return forced_decision(desc, machine, t_forced->prefix());
  PlanDecision decision;
  decision.machine = machine;
  decision.plans = propose_matmul(desc, machine);
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
    decision.reason = PlanReason::kPolicy;
  if (!tuned || (measured_lt && machine.policy == MatmulPolicy::kNative)) return decision;
  // Only what engines still propose: kernels change.
  const auto found = std::find(decision.plans.begin(), decision.plans.end(), tuned->plan);
  if (found == decision.plans.end()) return decision;
  decision.plan = *found;
  decision.reason = PlanReason::kMeasured;
  decision.measured_us = tuned->us;
  return decision;
}

std::vector<MatmulPlan> all_candidates(const MatmulDesc& desc, const Machine& machine) {
  return propose_with_cublaslt(desc, with_cublaslt(desc, machine));
}

}  // namespace gpk::ops
