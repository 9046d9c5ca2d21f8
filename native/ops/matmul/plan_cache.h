// Plans of GEMMs seen before, so that the launch path plans nothing.
#pragma once

#include <optional>

#include "ops/matmul/plan.h"
#include "plan/candidates.h"
#include "plan/explain.h"
#include "plan/plan_cache.h"

namespace gpk::ops::gemm {

struct PlannedGemm {
  DescFit fit = DescFit::kFits;  // otherwise there is no plan
  MatmulDesc desc;
  MatmulPlan plan;
};

using GemmKey = plan::PlanKey<64>;
using GemmPlans = plan::PlanCache<GemmKey, PlannedGemm>;
// While one lives, GEMMs of the calling thread are recorded instead of run; what ops return
// meanwhile is not initialised.
using GemmRecorder = plan::CallRecorder<GemmCall, GemmPlans>;
// While one lives, GEMMs of the calling thread take the first candidate with its prefix.
using ForcedPlan = plan::ForcedPlan<GemmPlans>;

// In a launch that is made of GEMMs: these choose plans of their own, also under a ForcedPlan.
class InnerPlans {
 public:
  InnerPlans() {
    if (ForcedPlan::current() != nullptr) any_.emplace("");
  }

 private:
  std::optional<ForcedPlan> any_;
};

// The plan for `call` on `context`: from the calling thread's cache, or made (decision.h) and put
// there. nullptr: a recorder took the call.
std::shared_ptr<const PlannedGemm> planned(const GemmCall& call, Context& context, const char* op);

}  // namespace gpk::ops::gemm
