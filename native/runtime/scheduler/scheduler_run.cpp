// Scheduler: waiting for tasks, and the threads that run their bodies.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "runtime/scheduler/scheduler.h"
#include "runtime/scheduler/scheduler_body.h"
#include "runtime/scheduler/scheduler_section.h"

namespace gpk::runtime {
namespace {

// How often a waiting body polls for memory that becomes free without notification.
constexpr std::chrono::milliseconds kHelpPause{2};

}  // namespace

void Scheduler::announce(Notices& notices) noexcept {
  std::size_t num_errors = 0;
  for (auto& [info, callbacks] : notices.ended) {
    for (TaskCallback& callback : callbacks) {
      try {
        callback(info);
      } catch (...) {
        ++num_errors;
      }
    }
  }
  if (num_errors > 0) {
    const std::lock_guard lock(mutex_);
    totals_.num_callback_errors += num_errors;
  }
}

void Scheduler::on_end(TaskId id, TaskCallback callback) {
  if (!callback) throw Error(Error::Kind::kValue, "Scheduler: on_end: callback is empty");
  locked([&] {
    TaskRecord& task = table_.at(id, "Scheduler: on_end");
    if (is_terminal(task.state)) {
      notices_.ended.emplace_back(make_info(task), std::vector<TaskCallback>());
      notices_.ended.back().second.push_back(std::move(callback));
    } else {
      task.callbacks.push_back(std::move(callback));
    }
  });
}

// --- waiting -----------------------------------------------------------------------------------

// `limit`, or the next deadline of any task: nobody else may be there to notice it.
SchedulerBell::Time Scheduler::before_deadlines(SchedulerBell::Time limit) const {
  if (deadlines_.empty()) return limit;
  const std::int64_t left_ns = deadlines_.begin()->first - clock_->now_ns();
  // With a clock that does not advance this becomes a slow poll.
  const auto pause =
      std::chrono::nanoseconds(std::clamp<std::int64_t>(left_ns, 1'000'000, 3'600'000'000'000) + 1);
  return std::min(limit, std::chrono::steady_clock::now() + pause);
}

SchedulerBell::Time Scheduler::idle_limit() const {
  SchedulerBell::Time limit = SchedulerBell::Time::max();
  if (queue_.num_queued() > 0) {
    const auto pause = ledger_->recheck_after();
    if (pause != MemoryLedger::kNever) limit = std::chrono::steady_clock::now() + pause;
  }
  return before_deadlines(limit);
}

std::optional<TaskInfo> Scheduler::wait(TaskId id,
                                        std::optional<std::chrono::nanoseconds> timeout) {
  using SteadyTime = std::chrono::steady_clock;
  SteadyTime::time_point limit = SteadyTime::time_point::max();
  if (timeout) {
    const auto now = SteadyTime::now();
    if (*timeout < limit - now) limit = now + *timeout;
  }
  std::optional<BodyWait> without_limit;
  if (!timeout) without_limit.emplace(*this, id);
  const bool helps = innermost_body != nullptr;
  std::unique_lock lock(mutex_);
  TaskRecord& task = table_.at(id, "Scheduler: wait");
  struct Waiting {  // keeps the record while someone waits for it
    Waiting(std::size_t& a, std::size_t& b) : num_a(a), num_b(b) {
      ++num_a;
      ++num_b;
    }
    ~Waiting() {
      --num_a;
      --num_b;
    }
    std::size_t& num_a;
    std::size_t& num_b;
  };
  const Waiting waiting(task.num_waiters, num_waiters_);
  while (!is_terminal(task.state)) {
    if (!deadlines_.empty() && deadlines_.begin()->first < clock_->now_ns()) {
      lock.unlock();
      poll();
      lock.lock();
      continue;
    }
    if (SteadyTime::now() >= limit) return std::nullopt;
    SteadyTime::time_point until = before_deadlines(limit);
    if (helps) {
      lock.unlock();
      const bool ran = run_one(&task);
      lock.lock();
      if (ran || is_terminal(task.state)) continue;
      until = std::min(until, SteadyTime::now() + kHelpPause);
    }
    if (until == SteadyTime::time_point::max()) {
      ended_condition_.wait(lock);
    } else {
      ended_condition_.wait_until(lock, until);
    }
  }
  return make_info(task);
}

TaskInfo Scheduler::result(TaskId id, std::optional<std::chrono::nanoseconds> timeout) {
  std::optional<TaskInfo> info = wait(id, timeout);
  if (!info)
    throw Error(Error::Kind::kState,
                cat("Scheduler: task ", id, " has not ended after ",
                    duration_text(timeout.value_or(std::chrono::nanoseconds(0)).count())));
  if (info->exception) std::rethrow_exception(info->exception);
  if (info->state != TaskState::kCompleted)
    throw Error(Error::Kind::kState,
                cat("Scheduler: task ", id, " ", to_string(info->state), ": ", info->reason));
  return *std::move(info);
}

// --- running bodies ----------------------------------------------------------------------------

bool Scheduler::run_one(TaskRecord* awaited) {
  TaskRecord* task = nullptr;
  TaskBody body;
  locked([&] {
    if (queue_.num_admitted(true) == 0) retry_all();
    task = next_to_run(awaited);
    if (task == nullptr) return;
    begin_running(*task);
    task->in_body = true;
    body = std::exchange(task->spec.body, nullptr);
    if (const RunningBody* outer = innermost_body_of(*this)) {
      outer->task->above = task;
      note_blocked(*outer->task);
    }
  });
  if (task == nullptr) return false;
  run_body(*task, std::move(body));
  return true;
}

void Scheduler::run_body(TaskRecord& task, TaskBody body) {
  // While in_body is set nobody else ends the task, so the record stays valid.
  TaskContext context(task.id, task.cancel_requested, task.detached);
  std::exception_ptr error;
  std::string reason;
  const RunningBody running{this, &task, innermost_body};
  innermost_body = &running;
  try {
    body(context);
  } catch (const std::exception& thrown) {
    error = std::current_exception();
    reason = thrown.what();
  } catch (...) {
    error = std::current_exception();
    reason = "an exception that is not a std::exception";
  }
  innermost_body = running.outer;
  body = nullptr;  // destroy its captures before anyone learns that the task has ended
  locked([&] {
    if (const RunningBody* outer = innermost_body_of(*this)) {
      outer->task->above = nullptr;
      note_blocked(*outer->task);
    }
    finish_body(task, std::move(error), std::move(reason));
  });
}

void Scheduler::finish_body(TaskRecord& task, std::exception_ptr error, std::string reason) {
  task.in_body = false;
  if (error) {
    finish(task, task.cancel_requested ? TaskState::kCancelled : TaskState::kFailed,
           std::move(reason), std::move(error));
    return;
  }
  if (task.detached && !task.early_end) return;
  if (task.early_end == TaskState::kFailed) {
    finish(task, TaskState::kFailed, std::move(task.reason));
  } else if (task.cancel_requested) {
    finish(task, TaskState::kCancelled, std::move(task.reason));
  } else {
    finish(task, TaskState::kCompleted, {});
  }
}

std::size_t Scheduler::run_ready(std::size_t max_tasks) {
  std::size_t num_run = 0;
  while (num_run < max_tasks && run_one()) ++num_run;
  return num_run;
}

std::size_t Scheduler::run_until_idle() {
  std::size_t num_run = 0;
  for (;;) {
    const std::uint64_t seen = bell_.rings();  // before the queue is checked
    while (run_one()) ++num_run;
    std::unique_lock lock(mutex_);
    if (queue_.first_admitted(true) != nullptr) continue;
    if (num_bodies_running_ == 0 || innermost_body_of(*this) != nullptr) return num_run;
    const SchedulerBell::Sleeper sleeper(bell_, queue_.num_queued() > 0);
    const SchedulerBell::Time limit = idle_limit();
    lock.unlock();
    bell_.wait(seen, limit);
  }
}

std::size_t Scheduler::serve(const std::stop_token& stop) {
  std::size_t num_run = 0;
  const std::stop_callback wake(stop, [this] { bell_.ring(); });
  for (;;) {
    const std::uint64_t seen = bell_.rings();  // before the queue and `stop` are checked
    if (stop.stop_requested()) break;
    if (run_one()) {
      ++num_run;
      continue;
    }
    std::unique_lock lock(mutex_);
    if (queue_.first_admitted(true) != nullptr) continue;
    const SchedulerBell::Sleeper sleeper(bell_, queue_.num_queued() > 0);
    const SchedulerBell::Time limit = idle_limit();
    lock.unlock();
    bell_.wait(seen, limit);
  }
  return num_run;
}

}  // namespace gpk::runtime
