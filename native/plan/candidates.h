// From the candidate plans of a family's engines to the one that runs.
//
// A family's Plan is a plain value with `float predicted_us`, to_string(), and == that ignores
// predicted_us. Its Machine is plan::Machine or derived from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace gpk::plan {

enum class Reason : std::uint8_t { kModel, kMeasured, kPolicy, kForced };
const char* name(Reason reason);  // "model", "measured", "policy", "forced"

template <class Plan, class Machine>
struct Decision {
  Machine machine;
  std::vector<Plan> plans;  // all candidates, cheapest first
  Plan plan;
  Reason reason = Reason::kModel;
  double measured_us = 0.0;  // of `plan`, where it was measured
};

// Cheapest first, then by `tie`, a member of Plan.
template <class Plan, class Tie>
void sort_by_time(std::vector<Plan>& plans, Tie tie) {
  std::stable_sort(plans.begin(), plans.end(), [tie](const Plan& x, const Plan& y) {
    return x.predicted_us != y.predicted_us ? x.predicted_us < y.predicted_us : x.*tie < y.*tie;
  });
}

// Takes a measured plan only if it is still a candidate: kernels change between versions.
template <class Plan, class Machine>
void take_measured(Decision<Plan, Machine>& decision, const Plan& measured, double us) {
  const auto found = std::find(decision.plans.begin(), decision.plans.end(), measured);
  if (found == decision.plans.end()) return;
  decision.plan = *found;
  decision.reason = Reason::kMeasured;
  decision.measured_us = us;
}

// While alive, calls of this thread use the first candidate whose text starts with `prefix` ("mma",
// "general(kernel=2"), overriding every other choice. `Cache` is the family's.
template <class Cache>
class ForcedPlan {
 public:
  explicit ForcedPlan(std::string prefix)
      : prefix_(std::move(prefix)), previous_(std::exchange(current_, this)) {}
  ~ForcedPlan() { current_ = previous_; }
  ForcedPlan(const ForcedPlan&) = delete;
  ForcedPlan& operator=(const ForcedPlan&) = delete;

  static const ForcedPlan* current() noexcept { return current_; }

  // Throws Error, listing all candidates, where none matches.
  template <class Plan, class Machine>
  void choose(Decision<Plan, Machine>& decision, const char* family) const {
    decision.reason = Reason::kForced;
    std::string all;
    for (const Plan& plan : decision.plans) {
      const std::string text = to_string(plan);
      if (text.starts_with(prefix_)) {
        decision.plan = plan;
        return;
      }
      all += cat("\n  ", text);
    }
    throw Error(cat(family, ": no plan starts with '", prefix_, "'; candidates are", all));
  }

 private:
  std::string prefix_;
  const ForcedPlan* previous_;
  typename Cache::Bypass bypass_;
  inline static thread_local const ForcedPlan* current_ = nullptr;
};

}  // namespace gpk::plan
