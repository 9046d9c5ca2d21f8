// A task: its requirements, its states, and what is known about it.
//
// pending --> queued <--> admitted --> running --> completed
//    each of the first four may also end as failed or cancelled
//
// pending: waits for dependencies. queued: waits for memory, bandwidth or its turn. admitted: holds
// its reservation and may start (an earlier-ordered task that lacks memory may still revoke it).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/scheduler/qos.h"

namespace gpk::runtime {

using TaskId = std::uint64_t;  // from 1; never reused within a scheduler
inline constexpr TaskId kNoTask = 0;

enum class TaskState : std::uint8_t {
  kPending,
  kQueued,
  kAdmitted,
  kRunning,
  kCompleted,
  kFailed,
  kCancelled,
};
inline constexpr std::size_t kNumTaskStates = 7;

[[nodiscard]] const char* to_string(TaskState state) noexcept;  // "pending", ...
[[nodiscard]] constexpr bool is_terminal(TaskState state) noexcept {
  return state >= TaskState::kCompleted;
}
[[nodiscard]] constexpr bool can_transition(TaskState from, TaskState to) noexcept {
  if (is_terminal(from)) return false;
  if (to == TaskState::kFailed || to == TaskState::kCancelled) return true;
  switch (from) {
    case TaskState::kPending: return to == TaskState::kQueued;
    case TaskState::kQueued: return to == TaskState::kAdmitted;
    case TaskState::kAdmitted: return to == TaskState::kRunning || to == TaskState::kQueued;
    case TaskState::kRunning: return to == TaskState::kCompleted;
    default: return false;
  }
}

struct TaskTransition {
  std::int64_t time_ns;
  TaskId id;
  TaskState from;
  TaskState to;
};

// What a body sees of its task while it runs.
class TaskContext {
 public:
  TaskContext(TaskId id, const std::atomic<bool>& cancel, std::atomic<bool>& detached) noexcept
      : id_(id), cancel_(cancel), detached_(detached) {}

  [[nodiscard]] TaskId id() const noexcept { return id_; }
  // Cancellation was requested; a long body polls this and returns early.
  [[nodiscard]] bool cancel_requested() const noexcept { return cancel_.load(); }
  // The work continues after the body has returned (on a stream): the task stays running until
  // Scheduler::complete or fail. A body that throws has failed regardless.
  void detach() noexcept { detached_ = true; }

 private:
  const TaskId id_;
  const std::atomic<bool>& cancel_;
  std::atomic<bool>& detached_;
};

using TaskBody = std::function<void(TaskContext&)>;

inline constexpr int kMaxTaskPriority = 1'000'000;                         // and its negative
inline constexpr std::int64_t kMaxTaskEstimateNs = 1'000'000'000'000'000;  // 11 days

struct TaskSpec {
  std::string name = {};     // for display
  std::string account = {};  // that its memory is charged to: a partition
  std::uint64_t owner = 0;   // the client; all tasks of one can be cancelled together
  QosClass qos = QosClass::kBestEffort;
  int priority = 0;  // higher runs earlier; the class's priority is added
  std::size_t memory_bytes = 0;
  double bandwidth = 0.0;  // share of the device's, 0 .. 1 and above if the scheduler has more
  std::int64_t estimated_ns = 0;                 // 0: unknown
  std::optional<std::int64_t> deadline_ns = {};  // on the scheduler's clock
  std::vector<TaskId> dependencies = {};
  // Run by Scheduler::run_*. Without one, the caller drives the task with start and complete.
  TaskBody body = {};
};

// kValue when a number of `spec` is out of range.
void check_task(const TaskSpec& spec);

// Why a task that is not running has not started.
enum class WaitReason : std::uint8_t {
  kNone,           // running or ended
  kDependencies,   // some have not completed
  kTurn,           // others are ahead of it
  kAccountMemory,  // its account's limit
  kDeviceMemory,
  kBandwidth,
  kHeldBack,  // would fit, but what is free is held back for a task that was passed too often
  kStart,     // admitted; not started yet
};

[[nodiscard]] const char* to_string(WaitReason reason) noexcept;

// A copy of everything known about a task. Times are on the scheduler's clock; -1: not yet.
struct TaskInfo {
  TaskInfo() noexcept { entered_ns.fill(-1); }

  [[nodiscard]] bool is_terminal() const noexcept { return runtime::is_terminal(state); }
  [[nodiscard]] std::int64_t submitted_ns() const noexcept { return entered(TaskState::kPending); }
  [[nodiscard]] std::int64_t started_ns() const noexcept { return entered(TaskState::kRunning); }
  [[nodiscard]] std::int64_t ended_ns() const noexcept;
  // Until it started or ended, or until `now_ns`.
  [[nodiscard]] std::int64_t wait_ns(std::int64_t now_ns) const noexcept;
  // From its start to its end or `now_ns`; 0 when it never started.
  [[nodiscard]] std::int64_t exec_ns(std::int64_t now_ns) const noexcept;
  // When it last entered `s`.
  [[nodiscard]] std::int64_t entered(TaskState s) const noexcept {
    return entered_ns[static_cast<std::size_t>(s)];
  }

  TaskId id = kNoTask;
  std::string name;
  std::string account;
  std::uint64_t owner = 0;
  QosClass qos = QosClass::kBestEffort;
  int priority = 0;
  std::size_t memory_bytes = 0;
  double bandwidth = 0.0;
  std::int64_t estimated_ns = 0;
  std::optional<std::int64_t> deadline_ns;
  std::vector<TaskId> dependencies;
  TaskState state = TaskState::kPending;
  std::array<std::int64_t, kNumTaskStates> entered_ns;
  std::size_t reserved_memory_bytes = 0;  // currently held
  WaitReason wait_reason = WaitReason::kNone;
  std::string reason;             // of failed and cancelled
  TaskId first_cause = kNoTask;   // root cause of a failure by dependencies
  std::exception_ptr exception;   // thrown by its body
  std::uint32_t num_passed = 0;   // times a later task took memory it was waiting for
  std::uint32_t num_revoked = 0;  // times its admission was revoked for an earlier one
  bool cancel_requested = false;
  bool missed_deadline = false;
};

}  // namespace gpk::runtime
