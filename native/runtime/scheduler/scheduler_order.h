// Which of two waiting tasks is first.
//
// Aging without per-tick work: every waiting task ages at the same rate, so the order of two tasks
// never changes while they wait, and a single rank, fixed when the task is queued, represents it.
//   priority: rank = queued_ns - priority * aging_interval. A task of priority p can be passed by
//     one of priority q only if that one was queued less than (q - p) * aging_interval later.
//   sjf: rank = queued_ns + estimate * sjf_patience. A job can be passed by one that is d shorter
//     only if that one was queued less than d * sjf_patience later.
// So no task starves.
#pragma once

#include <cstdint>

#include "runtime/scheduler/scheduler_record.h"

namespace gpk::runtime {

enum class SchedulePolicy { kFifo = 0, kSjf = 1, kPriority = 2 };

[[nodiscard]] const char* to_string(SchedulePolicy policy) noexcept;  // "fifo", "sjf", "priority"

struct OrderRule {
  // kValue when a number is out of range.
  void check() const;

  SchedulePolicy policy = SchedulePolicy::kFifo;
  // One priority step per interval waited; 0: strict priority, no aging.
  std::int64_t aging_interval_ns = 100'000'000;
  // Nanoseconds of waiting that offset one nanosecond of running time; 0: strict, no aging.
  std::int64_t sjf_patience = 100;
};

// `mean_exec_ns` is used where there is no estimate.
[[nodiscard]] QueueKey order_key(const OrderRule& rule, const TaskRecord& task,
                                 std::int64_t queued_ns, std::int64_t mean_exec_ns) noexcept;

}  // namespace gpk::runtime
