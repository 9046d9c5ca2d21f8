#include "runtime/scheduler/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "runtime/scheduler/scheduler_section.h"

namespace gpk::runtime {
namespace {

template <class T>
std::shared_ptr<T> or_default(std::shared_ptr<T> given, std::shared_ptr<T> fallback) {
  return given ? std::move(given) : std::move(fallback);
}

}  // namespace

Scheduler::Scheduler(std::shared_ptr<MemoryLedger> ledger, SchedulerConfig config,
                     std::shared_ptr<const Clock> clock)
    : config_(config),
      ledger_(or_default<MemoryLedger>(std::move(ledger), std::make_shared<LimitLedger>())),
      clock_(or_default<const Clock>(std::move(clock), std::make_shared<SteadyClock>())),
      queue_(*ledger_, {share_ppb(config.total_bandwidth, "SchedulerConfig: total_bandwidth"),
                        config.max_passes, config.backfill_depth}) {
  config_.order.check();
  ledger_->add_listener(bell_);
}

Scheduler::~Scheduler() {
  ledger_->remove_listener(bell_);
  for (TaskRecord* task : table_.in_order()) queue_.leave(*task);
}

void Scheduler::settle() {
  admit_queued();
  table_.trim(config_.max_ended_kept, notices_.exceptions);
}

// --- submission ----------------------------------------------------------------------------------

void Scheduler::resolve_dependencies(TaskSpec& spec) const {
  auto& ids = spec.dependencies;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const TaskId id : ids) table_.at(id, "Scheduler: dependency");
}

void Scheduler::check_new(const TaskSpec& spec) const {
  check_task(spec);
  if (spec.bandwidth > config_.total_bandwidth)
    throw Error(Error::Kind::kValue, cat("Scheduler: bandwidth is ", spec.bandwidth,
                                         ", expected at most ", config_.total_bandwidth));
  if (spec.memory_bytes == 0) return;
  const std::size_t capacity = ledger_->capacity_bytes(spec.account);
  if (spec.memory_bytes > capacity)
    throw Error(
        Error::Kind::kMemory,
        cat("Scheduler: task requests ", bytes_text(spec.memory_bytes), " (", spec.memory_bytes,
            " bytes), ", spec.account.empty() ? "it" : cat("account '", spec.account, '\''),
            " can never have more than ", bytes_text(capacity)));
}

TaskRecord& Scheduler::insert(TaskSpec&& spec, SharePpb bandwidth_ppb) {
  TaskRecord& task = table_.insert(std::move(spec));
  task.bandwidth_ppb = bandwidth_ppb;
  task.with_body = task.spec.body != nullptr;
  task.wait_reason = WaitReason::kDependencies;
  task.entered_ns[static_cast<std::size_t>(TaskState::kPending)] = now_ns_;
  ++num_in_state_[static_cast<std::size_t>(TaskState::kPending)];
  ++totals_.total_submitted;

  const TaskRecord* broken = nullptr;
  for (const TaskId id : task.spec.dependencies) {
    TaskRecord& dependency = *table_.find(id);
    if (dependency.state == TaskState::kCompleted) continue;
    if (is_terminal(dependency.state)) {
      if (broken == nullptr) broken = &dependency;
      continue;
    }
    dependency.dependents.push_back(task.id);
    ++task.num_unmet;
  }
  if (broken != nullptr) {
    const TaskId cause = broken->first_cause == kNoTask ? broken->id : broken->first_cause;
    task.first_cause = cause;
    finish(
        task, TaskState::kFailed,
        cat("dependency ", describe(*broken), " ", to_string(broken->state), ": ", broken->reason));
    return task;
  }
  if (task.spec.deadline_ns) deadlines_.emplace(*task.spec.deadline_ns, task.id);
  if (task.num_unmet == 0) enqueue(task);
  return task;
}

TaskId Scheduler::submit(TaskSpec spec) {
  return locked([&] {
    check_new(spec);
    resolve_dependencies(spec);
    const SharePpb bandwidth_ppb = share_ppb(spec.bandwidth, "TaskSpec: bandwidth");
    const TaskId id = insert(std::move(spec), bandwidth_ppb).id;
    expire();  // its deadline may have passed already
    return id;
  });
}

// --- the state machine -------------------------------------------------------------------------

void Scheduler::transition(TaskRecord& task, TaskState to) {
  if (!can_transition(task.state, to))
    throw Error(Error::Kind::kState, cat("Scheduler: ", describe(task), " cannot go from ",
                                         to_string(task.state), " to ", to_string(to)));
  --num_in_state_[static_cast<std::size_t>(task.state)];
  ++num_in_state_[static_cast<std::size_t>(to)];
  ++totals_.num_transitions;
  if (config_.max_transitions_kept > 0) {
    if (transitions_.size() == config_.max_transitions_kept) transitions_.pop_front();
    transitions_.push_back({now_ns_, task.id, task.state, to});
  }
  task.state = to;
  task.entered_ns[static_cast<std::size_t>(to)] = now_ns_;
  changed_ = true;
}

void Scheduler::enqueue(TaskRecord& task) {
  transition(task, TaskState::kQueued);
  task.order = order_key(config_.order, task, now_ns_, mean_exec_ns());
  if (queue_.enqueue(task)) retry_ = true;
}

void Scheduler::admit_waiting() {
  retry_ = false;
  queue_.admit(changes_);
  apply_changes();
  if (!blocked_.empty()) admit_awaited();
}

// The ledger may have changed on its own.
void Scheduler::retry_all() {
  retry_ = true;
  admit_queued();
}

void Scheduler::apply_changes() {
  for (const ReservationQueue::Change& change : changes_) {
    TaskRecord& task = *change.task;
    switch (change.kind) {
      case ReservationQueue::ChangeKind::kAdmitted: transition(task, TaskState::kAdmitted); break;
      case ReservationQueue::ChangeKind::kRevoked:
        transition(task, TaskState::kQueued);
        ++task.num_revoked;
        ++totals_.num_revoked;
        break;
      case ReservationQueue::ChangeKind::kFailed:
        finish(task, TaskState::kFailed, "its memory could not be reserved", change.error);
        break;
    }
  }
  changes_.clear();
}

void Scheduler::begin_running(TaskRecord& task) {
  queue_.start(task);
  transition(task, TaskState::kRunning);
  const auto submitted = static_cast<std::size_t>(TaskState::kPending);
  totals_.wait_sum_ns += now_ns_ - task.entered_ns[submitted];
  ++totals_.num_started;
  rate_.task_started(now_ns_);
  if (task.with_body) ++num_bodies_running_;
}

// Ends one task and releases everything it holds.
void Scheduler::end(TaskRecord& task, TaskState state, std::string&& reason,
                    std::exception_ptr&& exception) {
  const bool was_running = task.state == TaskState::kRunning;
  queue_.leave(task);
  retry_ = true;
  transition(task, state);
  task.reason = std::move(reason);
  task.exception = std::move(exception);
  if (was_running) {
    totals_.exec_sum_ns += now_ns_ - task.entered_ns[static_cast<std::size_t>(TaskState::kRunning)];
    ++totals_.num_executed;
    rate_.task_ended(now_ns_);
    if (task.with_body) --num_bodies_running_;
  }
  if (task.spec.deadline_ns) deadlines_.erase({*task.spec.deadline_ns, task.id});
  if (task.spec.body) notices_.bodies.push_back(std::exchange(task.spec.body, nullptr));
  if (!task.callbacks.empty())
    notices_.ended.emplace_back(make_info(task), std::exchange(task.callbacks, {}));
  table_.retire(task);
}

// Ends a task and, where it did not complete, everything that depends on it: breadth-first, by id.
void Scheduler::finish(TaskRecord& task, TaskState state, std::string reason,
                       std::exception_ptr exception) {
  end(task, state, std::move(reason), std::move(exception));
  if (state == TaskState::kCompleted) {
    release_dependents(task);
    return;
  }
  const TaskRecord& cause = task.first_cause == kNoTask || table_.find(task.first_cause) == nullptr
                                ? task
                                : *table_.find(task.first_cause);
  const std::string because =
      cat("first cause: ", describe(cause), " ", to_string(cause.state), ": ", cause.reason);
  std::vector<TaskRecord*> broken = {&task};
  for (std::size_t i = 0; i < broken.size(); ++i) {
    for (const TaskId id : std::exchange(broken[i]->dependents, {})) {
      TaskRecord* dependent = table_.find(id);
      if (dependent == nullptr || is_terminal(dependent->state)) continue;
      dependent->first_cause = cause.id;
      end(*dependent, TaskState::kFailed,
          cat("dependency ", describe(*broken[i]), " ", to_string(broken[i]->state), "; ", because),
          nullptr);
      broken.push_back(dependent);
    }
  }
}

void Scheduler::release_dependents(TaskRecord& task) {
  if (task.dependents.empty()) return;
  for (const TaskId id : std::exchange(task.dependents, {})) {
    TaskRecord* dependent = table_.find(id);
    if (dependent == nullptr || dependent->state != TaskState::kPending) continue;
    if (--dependent->num_unmet == 0) enqueue(*dependent);
  }
}

void Scheduler::expire_due() {
  while (!deadlines_.empty() && deadlines_.begin()->first < now_ns_) {
    TaskRecord& task = *table_.find(deadlines_.begin()->second);
    deadlines_.erase(deadlines_.begin());
    task.missed_deadline = true;
    ++totals_.num_missed_deadlines;
    if (task.state == TaskState::kRunning) continue;  // reported, not stopped
    finish(task, TaskState::kFailed,
           cat("deadline passed ", duration_text(now_ns_ - *task.spec.deadline_ns),
               " ago, before it started"));
  }
}

std::int64_t Scheduler::mean_exec_ns() const noexcept {
  return totals_.num_executed == 0
             ? 0
             : totals_.exec_sum_ns / static_cast<std::int64_t>(totals_.num_executed);
}

// --- tasks driven by the caller ------------------------------------------------------------------

std::vector<TaskId> Scheduler::start_runnable(std::size_t max_tasks) {
  return locked([&] {
    std::vector<TaskId> ids;
    if (queue_.num_admitted(false) < max_tasks) retry_all();
    while (ids.size() < max_tasks) {
      TaskRecord* task = queue_.first_admitted(false);
      if (task == nullptr) break;
      begin_running(*task);
      ids.push_back(task->id);
    }
    return ids;
  });
}

bool Scheduler::start(TaskId id) {
  return locked([&] {
    TaskRecord& task = table_.at(id, "Scheduler: start");
    if (task.with_body) return false;
    if (task.state == TaskState::kQueued) {
      queue_.admit_one(task, changes_);
      if (!changes_.empty()) retry_ = true;  // what was revoked may exceed the need
      apply_changes();
    }
    if (task.state != TaskState::kAdmitted) return false;
    begin_running(task);
    return true;
  });
}

bool Scheduler::should_run(TaskId id) const {
  const std::lock_guard lock(mutex_);
  const TaskRecord& task = table_.at(id, "Scheduler: should_run");
  if (task.with_body) return false;
  if (task.state == TaskState::kAdmitted) return true;
  return task.state == TaskState::kQueued && task.bandwidth_ppb <= queue_.available_ppb() &&
         task.spec.memory_bytes <= ledger_->available_bytes(task.spec.account);
}

bool Scheduler::complete(TaskId id) {
  return locked([&] {
    TaskRecord& task = table_.at(id, "Scheduler: complete");
    if (task.state != TaskState::kRunning) return false;
    if (task.in_body) {
      if (!task.detached || task.early_end) return false;
      task.early_end = TaskState::kCompleted;
      return true;
    }
    if (task.cancel_requested) {
      finish(task, TaskState::kCancelled, std::move(task.reason));
    } else {
      finish(task, TaskState::kCompleted, {});
    }
    return true;
  });
}

bool Scheduler::fail(TaskId id, std::string_view reason) {
  return locked([&] {
    TaskRecord& task = table_.at(id, "Scheduler: fail");
    if (is_terminal(task.state)) return false;
    if (task.in_body) {
      if (!task.detached || task.early_end) return false;
      task.early_end = TaskState::kFailed;
      task.reason = reason;
      return true;
    }
    finish(task, TaskState::kFailed, std::string(reason));
    return true;
  });
}

bool Scheduler::cancel_record(TaskRecord& task, std::string_view reason) {
  if (is_terminal(task.state)) return false;
  if (task.state == TaskState::kRunning && task.with_body) {
    if (task.early_end) return false;
    if (task.cancel_requested) return true;
    task.cancel_requested = true;
    task.reason = reason;
    return true;
  }
  finish(task, TaskState::kCancelled, std::string(reason));
  return true;
}

bool Scheduler::cancel(TaskId id, std::string_view reason) {
  return locked([&] { return cancel_record(table_.at(id, "Scheduler: cancel"), reason); });
}

std::size_t Scheduler::cancel_owner(std::uint64_t owner, std::string_view reason) {
  return locked([&] {
    // Newest first: a task is cancelled before its dependency's end can fail it.
    std::vector<TaskRecord*> mine = table_.in_order();
    std::erase_if(mine, [owner](const TaskRecord* task) { return task->spec.owner != owner; });
    std::size_t num_cancelled = 0;
    for (auto task = mine.rbegin(); task != mine.rend(); ++task)
      num_cancelled += cancel_record(**task, reason) ? 1 : 0;
    return num_cancelled;
  });
}

void Scheduler::poll() {
  locked([&] { retry_ = true; });
}

void Scheduler::clear() {
  locked([&] {
    std::vector<TaskRecord*> all = table_.in_order();
    for (auto task = all.rbegin(); task != all.rend(); ++task) cancel_record(**task, "cleared");
    table_.trim(0, notices_.exceptions);
    if (num_live() > 0) return;
    totals_ = {};
    num_in_state_ = {};
    transitions_.clear();
  });
}

}  // namespace gpk::runtime
