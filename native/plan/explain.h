// Plans as text, and calls that are planned without being run.
#pragma once

#include "plan/candidates.h"

namespace gpk::plan {

// While alive, calls of this thread are recorded instead of run: run functions call record() on
// their slow path. `Cache` is the family's, which is bypassed.
template <class Call, class Cache>
class CallRecorder {
 public:
  explicit CallRecorder(std::vector<Call>& into) : previous_(std::exchange(current_, &into)) {}
  ~CallRecorder() { current_ = previous_; }
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;

  // False where there is no recorder.
  static bool record(const Call& call) {
    if (current_ == nullptr) return false;
    current_->push_back(call);
    return true;
  }

 private:
  std::vector<Call>* previous_;
  typename Cache::Bypass bypass_;
  inline static thread_local std::vector<Call>* current_ = nullptr;
};

std::string us_text(double us);  // two decimals

// Machine, candidates with the choice marked, choice, and why.
template <class Plan, class Machine>
std::string explain_decision(const Decision<Plan, Machine>& decision, const std::string& why) {
  std::string text = cat("machine   ", to_string(decision.machine), "\ncandidates (predicted)\n");
  for (const Plan& plan : decision.plans)
    text += cat(plan == decision.plan ? "  * " : "    ", to_string(plan), "  ",
                us_text(plan.predicted_us), " us\n");
  return text + cat("choice    ", to_string(decision.plan), "\nwhy       ", why, "\n");
}

}  // namespace gpk::plan
