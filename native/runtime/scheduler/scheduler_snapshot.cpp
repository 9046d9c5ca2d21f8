#include "runtime/scheduler/scheduler_snapshot.h"

#include "base/text.h"

namespace gpk::runtime {
namespace {

std::string label_of(const TaskInfo& task) { return task.name.empty() ? "-" : task.name; }

std::string running_text(const SchedulerSnapshot& snapshot) {
  TextTable table;
  table.add_row({"running", "name", "class", "memory", "for", ""});
  bool any = false;
  for (const TaskInfo& task : snapshot.tasks) {
    if (task.state != TaskState::kRunning) continue;
    any = true;
    std::string note;
    if (task.missed_deadline) note = "past its deadline";
    if (task.cancel_requested) note += note.empty() ? "asked to stop" : ", asked to stop";
    table.add_row({cat(task.id), label_of(task), to_string(task.qos), bytes_text(task.memory_bytes),
                   duration_text(task.exec_ns(snapshot.now_ns)), note});
  }
  return any ? table.text() + "\n" : std::string();
}

std::string queue_text(const SchedulerSnapshot& snapshot) {
  if (snapshot.queue.empty()) return {};
  TextTable table;
  table.add_row({"waiting", "task", "name", "state", "why"});
  for (const QueueEntry& entry : snapshot.queue)
    table.add_row(
        {cat(entry.position), cat(entry.id), entry.label, to_string(entry.state), entry.text});
  return table.text() + "\n";
}

std::string accounts_text(const SchedulerSnapshot& snapshot) {
  if (snapshot.reservations.empty()) return {};
  TextTable table;
  table.add_row({"account", "reserved", "available", "capacity", "holding", "queued"});
  for (const AccountReservation& use : snapshot.reservations)
    table.add_row({use.account.empty() ? "-" : use.account, bytes_text(use.reserved_bytes),
                   bytes_text(use.available_bytes), bytes_text(use.capacity_bytes),
                   cat(use.num_tasks), cat(use.num_queued)});
  return table.text() + "\n";
}

}  // namespace

std::size_t SchedulerStats::num_waiting() const noexcept {
  return count(TaskState::kPending) + count(TaskState::kQueued) + count(TaskState::kAdmitted);
}

double SchedulerStats::avg_wait_ns() const noexcept {
  return num_started == 0 ? 0.0
                          : static_cast<double>(wait_sum_ns) / static_cast<double>(num_started);
}

double SchedulerStats::avg_exec_ns() const noexcept {
  return num_executed == 0 ? 0.0
                           : static_cast<double>(exec_sum_ns) / static_cast<double>(num_executed);
}

std::string SchedulerSnapshot::text() const {
  std::string counts;
  for (std::size_t i = 0; i < kNumTaskStates; ++i)
    counts +=
        cat(i == 0 ? "" : ", ", stats.num_in_state[i], " ", to_string(static_cast<TaskState>(i)));
  std::string out = cat("scheduler (", to_string(policy), "): ", stats.total_submitted,
                        " submitted; ", counts, "\n");
  out += cat("reserved ", bytes_text(stats.reserved_memory_bytes), " memory, ",
             fixed_text(stats.reserved_bandwidth, 2), " bandwidth; mean wait ",
             duration_text(static_cast<std::int64_t>(stats.avg_wait_ns())), ", mean run ",
             duration_text(static_cast<std::int64_t>(stats.avg_exec_ns())), "\n\n");
  out += running_text(*this);
  out += queue_text(*this);
  out += accounts_text(*this);
  while (out.size() > 1 && out[out.size() - 2] == '\n') out.pop_back();
  return out;
}

}  // namespace gpk::runtime
