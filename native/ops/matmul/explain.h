// How a GEMM is planned, for people and as data.
#pragma once

#include <optional>

#include "ops/matmul/decision.h"

namespace gpk::ops::gemm {

struct MatmulExplanation {
  DescFit fit = DescFit::kFits;  // otherwise there is no plan for the whole
  MatmulDesc desc;
  PlanDecision decision;
  std::string text;
};

// For the call's GPU, or for `machine` (as if it were there). Calls on the CPU need one.
MatmulExplanation explain_gemm(const GemmCall& call, const std::optional<GemmMachine>& machine);

}  // namespace gpk::ops::gemm
