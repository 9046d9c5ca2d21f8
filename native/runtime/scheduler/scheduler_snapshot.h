// A consistent snapshot of a scheduler, as data and as a readable table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/scheduler/scheduler_order.h"
#include "runtime/scheduler/task.h"

namespace gpk::runtime {

struct SchedulerStats {
  [[nodiscard]] std::size_t count(TaskState state) const noexcept {
    return num_in_state[static_cast<std::size_t>(state)];
  }
  // Pending, queued and admitted.
  [[nodiscard]] std::size_t num_waiting() const noexcept;
  [[nodiscard]] double avg_wait_ns() const noexcept;  // of those that started
  [[nodiscard]] double avg_exec_ns() const noexcept;  // of those that ran to completion

  std::size_t total_submitted = 0;
  std::array<std::size_t, kNumTaskStates> num_in_state{};
  std::size_t reserved_memory_bytes = 0;
  std::size_t available_memory_bytes = 0;  // the device's minus what is reserved
  double reserved_bandwidth = 0.0;
  double available_bandwidth = 0.0;
  std::size_t num_started = 0;
  std::size_t num_executed = 0;
  std::int64_t wait_sum_ns = 0;
  std::int64_t exec_sum_ns = 0;
  std::uint64_t num_transitions = 0;
  std::size_t num_missed_deadlines = 0;  // failed because of it, or running past it
  std::size_t num_revoked = 0;
  std::size_t num_callback_errors = 0;
};

struct QueueEntry {
  std::size_t position;
  TaskId id;
  std::string label;
  TaskState state;  // pending, queued or admitted
  WaitReason reason;
  std::string text;  // the reason with its figures
};

struct AccountReservation {
  std::string account;
  std::size_t reserved_bytes;
  std::size_t num_tasks;  // holding it
  std::size_t num_queued;
  std::size_t available_bytes;
  std::size_t capacity_bytes;
};

struct SchedulerSnapshot {
  // Queue, accounts and running tasks; ended ones only as counts.
  [[nodiscard]] std::string text() const;

  std::int64_t now_ns = 0;
  SchedulePolicy policy = SchedulePolicy::kFifo;
  SchedulerStats stats;
  std::vector<TaskInfo> tasks;                   // by id
  std::vector<QueueEntry> queue;                 // in service order, pending ones last
  std::vector<AccountReservation> reservations;  // by account
};

}  // namespace gpk::runtime
