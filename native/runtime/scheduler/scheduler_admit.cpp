// Scheduler: admission control, and queries about tasks.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "runtime/scheduler/scheduler.h"
#include "runtime/scheduler/scheduler_section.h"

namespace gpk::runtime {
namespace {

RejectReasonDetails explained(RejectReason type, std::string text) {
  RejectReasonDetails details;
  details.reason_type = type;
  details.custom = std::move(text);
  return details;
}

}  // namespace

std::optional<AdmissionDecision> Scheduler::decide_dependencies(const TaskSpec& spec,
                                                                std::string& unmet) const {
  const auto reject = [](std::string text) {
    return AdmissionDecision::rejected(
        explained(RejectReason::kUnsatisfiableDependencies, std::move(text)));
  };
  TaskSpec resolved;
  resolved.dependencies = spec.dependencies;
  try {
    resolve_dependencies(resolved);
  } catch (const Error& error) {
    return reject(error.what());
  }
  for (const TaskId id : resolved.dependencies) {
    const TaskRecord& dependency = *table_.find(id);
    if (dependency.state == TaskState::kFailed || dependency.state == TaskState::kCancelled)
      return reject(
          cat(describe(dependency), " ", to_string(dependency.state), ": ", dependency.reason));
    if (dependency.state != TaskState::kCompleted)
      unmet += cat(unmet.empty() ? "waits for " : ", ", describe(dependency));
  }
  return std::nullopt;
}

AdmissionRequest Scheduler::request_of(const TaskSpec& spec) const {
  return admission_request(spec.memory_bytes, share_ppb(spec.bandwidth, "TaskSpec: bandwidth"),
                           ledger_->device_bytes());
}

AdmissionDecision Scheduler::decide(const TaskSpec& spec) const {
  std::string unmet;
  if (auto broken = decide_dependencies(spec, unmet)) return *std::move(broken);
  AdmissionConfig config(ledger_->capacity_bytes(spec.account), config_.total_bandwidth,
                         config_.max_pending_tasks, config_.enable_best_effort);
  config.reject_impossible = true;
  AdmissionUsage usage;
  usage.reserved_memory_bytes = queue_.reserved_bytes();
  usage.available_memory_bytes = ledger_->available_bytes(spec.account);
  usage.available_bandwidth_ppb = queue_.available_ppb();
  usage.num_pending = num_live();
  usage.measured_wait_ns = rate_.wait_ns(queue_.num_queued() + 1);
  AdmissionDecision decision = decide_admission(config, usage, request_of(spec));
  if (decision.is_admitted() && !unmet.empty())
    return decide_queued(usage.num_pending, queue_.num_queued(), std::move(unmet));
  return decision;
}

// Queued for a reason other than the figures.
AdmissionDecision Scheduler::decide_queued(std::size_t num_pending, std::size_t num_queued,
                                           std::string text) const {
  const auto wait_ns = rate_.wait_ns(num_queued + 1);
  AdmissionDecision decision = AdmissionDecision::queued(num_pending, wait_ns.value_or(0));
  decision.wait_is_measured = wait_ns.has_value();
  decision.details = explained(RejectReason::kCustom, std::move(text));
  return decision;
}

AdmissionDecision Scheduler::evaluate_admission(const TaskSpec& spec) const {
  check_task(spec);
  const std::lock_guard lock(mutex_);
  return decide(spec);
}

AdmissionOutcome Scheduler::admit(TaskSpec spec) {
  return locked([&] { return admit_locked(std::move(spec)); });
}

AdmissionOutcome Scheduler::admit_locked(TaskSpec spec) {
  check_task(spec);
  AdmissionDecision decision = decide(spec);
  if (decision.is_rejected()) return {std::move(decision)};
  check_new(spec);
  resolve_dependencies(spec);
  const SharePpb bandwidth_ppb = request_of(spec).bandwidth_ppb;
  TaskRecord& task = insert(std::move(spec), bandwidth_ppb);
  expire();
  admit_queued();
  // The queue decides: order and held-back resources may refuse where the figures would admit, and
  // a task first in order revokes what later ones have not started to use.
  if (task.state == TaskState::kAdmitted)
    return {AdmissionDecision::admitted(task.spec.memory_bytes, bandwidth_ppb), task.id};
  if (decision.is_queued() && !is_terminal(task.state)) return {std::move(decision), task.id};
  if (is_terminal(task.state))  // its deadline has passed, or the ledger failed
    return {AdmissionDecision::rejected(explained(RejectReason::kCustom, task.reason)), task.id};
  const std::size_t num_ahead_queued = std::max<std::size_t>(queue_.num_queued(), 1) - 1;
  return {decide_queued(num_live() - 1, num_ahead_queued, wait_text(task)), task.id};
}

// --- queries -------------------------------------------------------------------------------------

std::size_t Scheduler::num_live() const noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < kNumTaskStates; ++i)
    if (!is_terminal(static_cast<TaskState>(i))) count += num_in_state_[i];
  return count;
}

TaskState Scheduler::state(TaskId id) const {
  const std::lock_guard lock(mutex_);
  return table_.at(id, "Scheduler: state").state;
}

TaskInfo Scheduler::info(TaskId id) const {
  const std::lock_guard lock(mutex_);
  return make_info(table_.at(id, "Scheduler: info"));
}

std::vector<TaskId> Scheduler::overdue() const {
  const std::lock_guard lock(mutex_);
  std::vector<TaskId> ids;
  const std::int64_t now_ns = clock_->now_ns();
  for (const TaskRecord* task : table_.in_order()) {
    const auto& deadline_ns = task->spec.deadline_ns;
    if (task->state == TaskState::kRunning && deadline_ns && *deadline_ns < now_ns)
      ids.push_back(task->id);
  }
  return ids;
}

std::vector<TaskTransition> Scheduler::take_transitions() {
  const std::lock_guard lock(mutex_);
  std::vector<TaskTransition> taken(transitions_.begin(), transitions_.end());
  transitions_.clear();
  return taken;
}

SchedulerStats Scheduler::stats_locked() const {
  SchedulerStats stats = totals_;
  stats.num_in_state = num_in_state_;
  stats.reserved_memory_bytes = queue_.reserved_bytes();
  const std::size_t device = ledger_->device_bytes();
  stats.available_memory_bytes = device == LimitLedger::kUnlimited
                                     ? device
                                     : device - std::min(device, stats.reserved_memory_bytes);
  stats.reserved_bandwidth = share_of_ppb(queue_.reserved_ppb());
  stats.available_bandwidth = share_of_ppb(queue_.available_ppb());
  return stats;
}

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_locked();
}

std::string Scheduler::wait_text(const TaskRecord& task) const {
  const auto memory = [&](const char* whose) {
    return cat("needs ", bytes_text(task.spec.memory_bytes), ", ", whose, " has ",
               bytes_text(ledger_->available_bytes(task.spec.account)), " of ",
               bytes_text(ledger_->capacity_bytes(task.spec.account)), " left");
  };
  switch (task.wait_reason) {
    case WaitReason::kNone: break;
    case WaitReason::kDependencies: {
      std::string names;
      for (const TaskId id : task.spec.dependencies) {
        const TaskRecord* dependency = table_.find(id);
        if (dependency == nullptr || is_terminal(dependency->state)) continue;
        names += cat(names.empty() ? "" : ", ", describe(*dependency));
      }
      return cat("waits for ", names);
    }
    case WaitReason::kTurn: return "others are ahead of it";
    case WaitReason::kAccountMemory: return memory("its account");
    case WaitReason::kDeviceMemory: return memory("the device");
    case WaitReason::kBandwidth:
      return cat("needs ", share_of_ppb(task.bandwidth_ppb), " of the bandwidth, ",
                 share_of_ppb(queue_.available_ppb()), " left");
    case WaitReason::kHeldBack:
      return "what is free is held back for a task that was passed too often";
    case WaitReason::kStart:
      return task.with_body ? "admitted, waits for a worker" : "admitted, not started yet";
  }
  return {};
}

SchedulerSnapshot Scheduler::snapshot() const {
  const std::lock_guard lock(mutex_);
  SchedulerSnapshot snapshot;
  snapshot.now_ns = clock_->now_ns();
  snapshot.policy = config_.order.policy;
  snapshot.stats = stats_locked();
  std::vector<const TaskRecord*> waiting;
  for (const TaskRecord* task : queue_.waiting()) waiting.push_back(task);
  for (const TaskRecord* task : table_.in_order()) {
    snapshot.tasks.push_back(make_info(*task));
    if (task->state == TaskState::kPending) waiting.push_back(task);
  }
  for (const TaskRecord* task : waiting) {
    snapshot.queue.push_back({snapshot.queue.size(), task->id, task->spec.name, task->state,
                              task->wait_reason, wait_text(*task)});
  }
  for (auto& use : queue_.account_use())
    snapshot.reservations.push_back({use.account, use.reserved_bytes, use.num_holding,
                                     use.num_queued, ledger_->available_bytes(use.account),
                                     ledger_->capacity_bytes(use.account)});
  return snapshot;
}

}  // namespace gpk::runtime
