// From all that engines propose to the one plan that runs, and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/matmul/plan.h"

namespace gpk::ops {

enum class PlanReason : std::uint8_t { kModel, kMeasured, kPolicy, kForced };
const char* name(PlanReason reason);  // "model", "measured", "policy", "forced"

struct PlanDecision {
  Machine machine;
  std::vector<MatmulPlan> plans;  // all proposals, cheapest first
  MatmulPlan plan;
  PlanReason reason = PlanReason::kModel;
  double measured_us = 0.0;  // of `plan`, where it was measured
};

// Uses what was measured (tuning.h). Loads cuBLASLt where the policy names it, where it measured
// faster, and where only the general engine could make a product that takes long.
PlanDecision decide_plan(const MatmulDesc& desc, const Machine& machine);

// What decide_plan() weighs, with cuBLASLt wherever it can be had: for measurements.
std::vector<MatmulPlan> all_candidates(const MatmulDesc& desc, const Machine& machine);

// While one lives, products of the calling thread take the first candidate whose text starts with
// `prefix` ("mma", "general(kernel=2"), whatever the policy says; Error where there is none.
class ForcedPlan {
 public:
  explicit ForcedPlan(std::string prefix);
  ~ForcedPlan();
  ForcedPlan(const ForcedPlan&) = delete;
  ForcedPlan& operator=(const ForcedPlan&) = delete;
  static const ForcedPlan* current() noexcept;
  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }

 private:
  std::string prefix_;
  const ForcedPlan* previous_;
};

}  // namespace gpk::ops
