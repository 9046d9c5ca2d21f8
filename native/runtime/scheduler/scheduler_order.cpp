#include "runtime/scheduler/scheduler_order.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::runtime {
namespace {

// Prevents overflow of ranks: priorities and estimates are bounded too.
constexpr std::int64_t kMaxAgingIntervalNs = 1'000'000'000'000;
constexpr std::int64_t kMaxSjfPatience = 1000;

}  // namespace

const char* to_string(SchedulePolicy policy) noexcept {
  switch (policy) {
    case SchedulePolicy::kFifo: return "fifo";
    case SchedulePolicy::kSjf: return "sjf";
    case SchedulePolicy::kPriority: return "priority";
  }
  return "?";
}

void OrderRule::check() const {
  if (aging_interval_ns < 0 || aging_interval_ns > kMaxAgingIntervalNs)
    throw Error(Error::Kind::kValue, cat("OrderRule: aging_interval_ns is ", aging_interval_ns,
                                         ", expected 0 .. ", kMaxAgingIntervalNs));
  if (sjf_patience < 0 || sjf_patience > kMaxSjfPatience)
    throw Error(Error::Kind::kValue, cat("OrderRule: sjf_patience is ", sjf_patience,
                                         ", expected 0 .. ", kMaxSjfPatience));
}

QueueKey order_key(const OrderRule& rule, const TaskRecord& task, std::int64_t queued_ns,
                   std::int64_t mean_exec_ns) noexcept {
  switch (rule.policy) {
    case SchedulePolicy::kFifo: break;
    case SchedulePolicy::kSjf: {
      const std::int64_t estimate_ns = task.spec.estimated_ns > 0
                                           ? task.spec.estimated_ns
                                           : std::min(mean_exec_ns, kMaxTaskEstimateNs);
      if (rule.sjf_patience == 0) return {estimate_ns, task.id};
      return {queued_ns + estimate_ns * rule.sjf_patience, task.id};
    }
    case SchedulePolicy::kPriority: {
      const std::int64_t priority =
          std::int64_t{task.spec.priority} + class_priority(task.spec.qos);
      if (rule.aging_interval_ns == 0) return {-priority, task.id};
      return {queued_ns - priority * rule.aging_interval_ns, task.id};
    }
  }
  return {0, task.id};  // ids increase with submission
}

}  // namespace gpk::runtime
