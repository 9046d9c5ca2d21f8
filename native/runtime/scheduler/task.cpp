#include "runtime/scheduler/task.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "runtime/share.h"

namespace gpk::runtime {

const char* to_string(TaskState state) noexcept {
  switch (state) {
    case TaskState::kPending: return "pending";
    case TaskState::kQueued: return "queued";
    case TaskState::kAdmitted: return "admitted";
    case TaskState::kRunning: return "running";
    case TaskState::kCompleted: return "completed";
    case TaskState::kFailed: return "failed";
    case TaskState::kCancelled: return "cancelled";
  }
  return "?";
}

const char* to_string(WaitReason reason) noexcept {
  switch (reason) {
    case WaitReason::kNone: return "none";
    case WaitReason::kDependencies: return "dependencies";
    case WaitReason::kTurn: return "turn";
    case WaitReason::kAccountMemory: return "account memory";
    case WaitReason::kDeviceMemory: return "device memory";
    case WaitReason::kBandwidth: return "bandwidth";
    case WaitReason::kHeldBack: return "held back";
    case WaitReason::kStart: return "start";
  }
  return "?";
}

void check_task(const TaskSpec& spec) {
  const auto fail = [](const std::string& message) {
    throw Error(Error::Kind::kValue, "TaskSpec: " + message);
  };
  if (spec.priority < -kMaxTaskPriority || spec.priority > kMaxTaskPriority)
    fail(cat("priority is ", spec.priority, ", expected ", -kMaxTaskPriority, " .. ",
             kMaxTaskPriority));
  if (spec.estimated_ns < 0 || spec.estimated_ns > kMaxTaskEstimateNs)
    fail(cat("estimated_ns is ", spec.estimated_ns, ", expected 0 .. ", kMaxTaskEstimateNs));
  if (spec.deadline_ns && *spec.deadline_ns < 0)
    fail(cat("deadline_ns is ", *spec.deadline_ns, ", expected at least 0"));
  share_ppb(spec.bandwidth, "TaskSpec: bandwidth");
}

std::int64_t TaskInfo::ended_ns() const noexcept {
  return is_terminal() ? entered(state) : std::int64_t{-1};
}

std::int64_t TaskInfo::wait_ns(std::int64_t now_ns) const noexcept {
  if (started_ns() >= 0) return started_ns() - submitted_ns();
  return (is_terminal() ? ended_ns() : now_ns) - submitted_ns();
}

std::int64_t TaskInfo::exec_ns(std::int64_t now_ns) const noexcept {
  if (started_ns() < 0) return 0;
  return (is_terminal() ? ended_ns() : now_ns) - started_ns();
}

}  // namespace gpk::runtime
