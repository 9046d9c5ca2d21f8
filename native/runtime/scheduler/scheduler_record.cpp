#include "runtime/scheduler/scheduler_record.h"

#include "base/text.h"

namespace gpk::runtime {

TaskInfo make_info(const TaskRecord& record) {
  const TaskSpec& spec = record.spec;
  TaskInfo info;
  info.id = record.id;
  info.name = spec.name;
  info.account = spec.account;
  info.owner = spec.owner;
  info.qos = spec.qos;
  info.priority = spec.priority;
  info.memory_bytes = spec.memory_bytes;
  info.bandwidth = share_of_ppb(record.bandwidth_ppb);
  info.estimated_ns = spec.estimated_ns;
  info.deadline_ns = spec.deadline_ns;
  info.dependencies = spec.dependencies;
  info.state = record.state;
  info.entered_ns = record.entered_ns;
  info.reserved_memory_bytes = record.holds_reservation ? spec.memory_bytes : 0;
  info.wait_reason = record.wait_reason;
  info.reason = record.reason;
  info.first_cause = record.first_cause;
  info.exception = record.exception;
  info.num_passed = record.num_passed;
  info.num_revoked = record.num_revoked;
  info.cancel_requested = record.cancel_requested;
  info.missed_deadline = record.missed_deadline;
  return info;
}

std::string describe(const TaskRecord& record) {
  if (record.spec.name.empty()) return cat("task ", record.id);
  return cat("task ", record.id, " '", record.spec.name, "'");
}

}  // namespace gpk::runtime
