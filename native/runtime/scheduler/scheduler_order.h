// Which of two waiting tasks is first.
//
// Aging without any work per tick: every waiting task gains at the same speed, so the order of two
// tasks never changes while they wait, and one number fixed at queueing time holds it.
//   priority: rank = queued_ns - priority * aging_interval. A task of priority p can be passed by
//     one of priority q only if that one was queued less than (q - p) * aging_interval later.
//   sjf: rank = queued_ns + estimate * sjf_patience. A job can be passed by one that is d shorter
//     only if that one was queued less than d * sjf_patience later.
// So nothing that waits is passed for ever.
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
  // One step of priority per interval waited; 0: strict priority, no aging.
  std::int64_t aging_interval_ns = 100'000'000;
  // Nanoseconds of waiting that outweigh one of running time; 0: strict, no aging.
  std::int64_t sjf_patience = 100;
};

// `mean_exec_ns` stands for an estimate that is not known.
[[nodiscard]] QueueKey order_key(const OrderRule& rule, const TaskRecord& task,
                                 std::int64_t queued_ns, std::int64_t mean_exec_ns) noexcept;

}  // namespace gpk::runtime
