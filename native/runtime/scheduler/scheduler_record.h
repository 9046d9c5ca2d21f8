// The scheduler's own view of a task, and its position in the order. Internal to the scheduler.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/scheduler/task.h"
#include "runtime/share.h"

namespace gpk::runtime {

using TaskCallback = std::function<void(const TaskInfo&)>;

// Smaller is earlier. Fixed when the task is queued; see order_key.
struct QueueKey {
  std::int64_t rank = 0;
  TaskId id = kNoTask;
  auto operator<=>(const QueueKey&) const = default;
};

struct TaskRecord;
struct QueueLane;
using TaskOrder = std::map<QueueKey, TaskRecord*>;

// Which list of the queue a task is in.
enum class TaskList : std::uint8_t { kNone, kLight, kLane, kAdmitted };

struct TaskRecord {
  TaskRecord() { entered_ns.fill(-1); }

  TaskId id = kNoTask;
  TaskSpec spec;
  TaskState state = TaskState::kPending;
  std::array<std::int64_t, kNumTaskStates> entered_ns;
  SharePpb bandwidth_ppb = 0;

  std::vector<TaskId> dependents;
  std::size_t num_unmet = 0;  // dependencies that have not completed

  QueueKey order;
  TaskList list = TaskList::kNone;
  TaskOrder::iterator place;  // in that list
  TaskOrder::node_type node;  // the list node, kept here between two lists
  QueueLane* lane = nullptr;  // its account's, from queued on
  WaitReason wait_reason = WaitReason::kNone;
  bool holds_reservation = false;
  std::uint32_t num_passed = 0;
  std::uint32_t num_revoked = 0;

  std::string reason;
  TaskId first_cause = kNoTask;
  std::exception_ptr exception;
  std::vector<TaskCallback> callbacks;
  std::size_t num_waiters = 0;
  std::atomic<bool> cancel_requested{false};
  std::atomic<bool> detached{false};
  bool with_body = false;
  bool in_body = false;  // a worker is inside its body; only that worker may end it
  // A detached task that was ended before its body returned.
  std::optional<TaskState> early_end;
  bool missed_deadline = false;
  TaskRecord* waits_for = nullptr;  // set while its body waits without a timeout
  TaskRecord* above = nullptr;      // what its thread runs while the body waits

  TaskRecord* next_ended = nullptr;  // owned by the table
};

[[nodiscard]] TaskInfo make_info(const TaskRecord& record);
// "task 3 'name'".
[[nodiscard]] std::string describe(const TaskRecord& record);

}  // namespace gpk::runtime
