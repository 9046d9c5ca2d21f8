// The scheduler: tasks with dependencies, priorities, deadlines and memory, in a deterministic
// order.
//
//   Scheduler scheduler(std::make_shared<LimitLedger>(8 * kGiB));
//   const TaskId load = scheduler.submit({.name = "load", .memory_bytes = kGiB, .body = ...});
//   const TaskId run = scheduler.submit({.name = "run", .dependencies = {load}, .body = ...});
//   scheduler.run_until_idle();     // or threads in serve()
//   scheduler.result(run);          // throws what the body threw
//
// A task with a body is run by the threads in run_ready, run_until_idle and serve. One without is
// driven by the caller: start_runnable, start, complete or fail.
//
// Guarantees: the same calls at the same clock times give the same states, order and reasons. A
// reservation is taken before a task may start and released when it ends, however it ends. A failed
// or cancelled task fails everything that depends on it, with a reason that names the root cause.
// No starvation (scheduler_order.h, scheduler_queue.h). Callbacks, bodies and their captures are
// called and destroyed without the lock.
//
// Thread safe. All calls throw kValue for an unknown id.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/memory_ledger.h"
#include "runtime/scheduler/admission_decision.h"
#include "runtime/scheduler/admission_rate.h"
#include "runtime/scheduler/scheduler_bell.h"
#include "runtime/scheduler/scheduler_order.h"
#include "runtime/scheduler/scheduler_queue.h"
#include "runtime/scheduler/scheduler_snapshot.h"
#include "runtime/scheduler/scheduler_table.h"
#include "runtime/scheduler/task.h"

namespace gpk::runtime {

struct SchedulerConfig {
  OrderRule order;
  double total_bandwidth = 1.0;
  // How often later tasks may take memory that an earlier one lacks, and how many tasks of an
  // account are considered past its first that does not fit.
  std::uint32_t max_passes = 64;
  std::uint32_t backfill_depth = 32;
  // For admit() only.
  std::size_t max_pending_tasks = 1000;
  bool enable_best_effort = true;
  // Ended tasks that can still be queried; older ones are dropped.
  std::size_t max_ended_kept = 16384;
  // Transitions kept for take_transitions(); older ones are dropped.
  std::size_t max_transitions_kept = 0;
};

struct AdmissionOutcome {
  AdmissionDecision decision;
  // Set when the task was accepted. A rejected one may have an id: past its deadline, it has
  // failed.
  TaskId id = kNoTask;
};

class Scheduler {
 public:
  // A null ledger is unlimited, a null clock is real time. kValue when the config is out of range.
  explicit Scheduler(std::shared_ptr<MemoryLedger> ledger = nullptr, SchedulerConfig config = {},
                     std::shared_ptr<const Clock> clock = nullptr);
  // Releases all reservations. No call may be in progress.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Submits the task without admission control. kValue: a number out of range, an unknown
  // dependency; kMemory: more memory than its account can ever have.
  TaskId submit(TaskSpec spec);
  // Runs admission control first (decide_admission with this scheduler's figures) and submits the
  // task unless rejected. A task without a bandwidth gets the estimate.
  AdmissionOutcome admit(TaskSpec spec);
  // What admit would decide now; the order of other queued tasks can still change it.
  [[nodiscard]] AdmissionDecision evaluate_admission(const TaskSpec& spec) const;

  // False when it has ended, runs, has a body, waits for dependencies or does not fit now. A queued
  // task is started out of order: the order is then up to the caller, bypassing what is held back
  // for others.
  bool start(TaskId id);
  // Starts admitted tasks without a body, in order.
  std::vector<TaskId> start_runnable(std::size_t max_tasks);
  // True when start would succeed without revoking a reservation of others.
  [[nodiscard]] bool should_run(TaskId id) const;
  // Running -> completed (or cancelled, if cancellation of a detached task was requested). False in
  // any other state, and while the body is not detached.
  bool complete(TaskId id);
  // Any non-terminal state -> failed; false otherwise, and while a body runs that is not detached.
  bool fail(TaskId id, std::string_view reason);
  // Any non-terminal state. A task whose body runs is asked to stop and is cancelled when it has
  // ended; every other one at once. False when it has ended already.
  bool cancel(TaskId id, std::string_view reason = "cancelled");
  // Cancels all tasks of a client; returns how many.
  std::size_t cancel_owner(std::uint64_t owner, std::string_view reason = "its owner is gone");
  // Ends tasks past their deadline and retries the queue. Every mutating call does so too, and idle
  // workers do when the ledger notifies its listeners; this one is for a clock or a ledger that
  // changed on its own.
  void poll();
  // Cancels everything and drops ended tasks; counters are reset when nothing is left.
  void clear();

  [[nodiscard]] TaskState state(TaskId id) const;
  [[nodiscard]] TaskInfo info(TaskId id) const;
  [[nodiscard]] SchedulerStats stats() const;
  [[nodiscard]] SchedulerSnapshot snapshot() const;
  [[nodiscard]] std::vector<TaskId> overdue() const;  // running past their deadline, by id
  // The transitions since the last call, oldest first.
  std::vector<TaskTransition> take_transitions();
  [[nodiscard]] const SchedulerConfig& config() const noexcept { return config_; }
  [[nodiscard]] const Clock& clock() const noexcept { return *clock_; }

  // Called once, without the lock, by the thread that ends the task; immediately if it has ended.
  // Exceptions it throws are counted and dropped.
  void on_end(TaskId id, TaskCallback callback);
  // Blocks until the task has ended; nullopt on a timeout (real time). Inside a body it runs other
  // bodies meanwhile, so that waiting workers cannot stall everything, and without a timeout it
  // throws DeadlockError when the wait could never end: the task, or one it depends on, cannot get
  // its reservation beside those held by this task and other waiting ones.
  std::optional<TaskInfo> wait(TaskId id,
                               std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  // wait, then: rethrows what the body threw; kState when failed without an exception, cancelled or
  // timed out.
  TaskInfo result(TaskId id, std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

  // Same for a wait in several steps: while alive, the task whose body the calling thread runs
  // waits for `id` without a timeout. No-op outside of this scheduler's bodies.
  class BodyWait {
   public:
    BodyWait(Scheduler& scheduler, TaskId id);
    ~BodyWait();
    BodyWait(const BodyWait&) = delete;
    BodyWait& operator=(const BodyWait&) = delete;

   private:
    Scheduler& scheduler_;
    TaskRecord* waiter_ = nullptr;
    TaskRecord* outer_ = nullptr;  // the wait that this one interrupts (a signal handler)
  };

  // These run bodies on the calling thread and return how many.
  // Bodies that are ready, without waiting for any.
  std::size_t run_ready(std::size_t max_tasks);
  // Until no body is ready and none runs in other threads. Inside a body: until none is ready.
  std::size_t run_until_idle();
  // Until `stop` is requested.
  std::size_t serve(const std::stop_token& stop);

 private:
  // Work to do once the lock is released.
  struct Notices {
    std::vector<std::pair<TaskInfo, std::vector<TaskCallback>>> ended;
    std::vector<TaskBody> bodies;
    std::vector<std::exception_ptr> exceptions;  // of tasks that were dropped
    [[nodiscard]] bool empty() const noexcept {
      return ended.empty() && bodies.empty() && exceptions.empty();
    }
  };
  class Section;
  template <class F>
  auto locked(F&& body);
  void announce(Notices& notices) noexcept;
  void settle();

  void resolve_dependencies(TaskSpec& spec) const;
  void check_new(const TaskSpec& spec) const;
  TaskRecord& insert(TaskSpec&& spec, SharePpb bandwidth_ppb);
  AdmissionOutcome admit_locked(TaskSpec spec);
  [[nodiscard]] AdmissionRequest request_of(const TaskSpec& spec) const;
  [[nodiscard]] AdmissionDecision decide(const TaskSpec& spec) const;
  [[nodiscard]] std::optional<AdmissionDecision> decide_dependencies(const TaskSpec& spec,
                                                                     std::string& unmet) const;
  [[nodiscard]] AdmissionDecision decide_queued(std::size_t num_pending, std::size_t num_queued,
                                                std::string text) const;

  void transition(TaskRecord& task, TaskState to);
  void enqueue(TaskRecord& task);
  void admit_queued() {
    if (retry_) admit_waiting();
  }
  void admit_waiting();
  void retry_all();
  void apply_changes();
  void begin_running(TaskRecord& task);
  void finish(TaskRecord& task, TaskState state, std::string reason,
              std::exception_ptr exception = nullptr);
  void end(TaskRecord& task, TaskState state, std::string&& reason, std::exception_ptr&& exception);
  void release_dependents(TaskRecord& task);
  void expire() {
    if (!deadlines_.empty()) expire_due();
  }
  void expire_due();
  bool cancel_record(TaskRecord& task, std::string_view reason);
  // `awaited`: what it depends on runs first.
  bool run_one(TaskRecord* awaited = nullptr);
  TaskRecord* next_to_run(TaskRecord* awaited);
  void run_body(TaskRecord& task, TaskBody body);
  void finish_body(TaskRecord& task, std::exception_ptr error, std::string reason);
  using TaskTest = std::function<bool(TaskRecord&)>;
  TaskRecord* find_needed(TaskRecord& root, const TaskTest& matches);
  void note_blocked(TaskRecord& task);
  [[nodiscard]] std::vector<TaskRecord*> stuck_tasks();
  TaskRecord* obstacle_of(TaskRecord& task, const std::vector<TaskRecord*>& stuck);
  [[nodiscard]] bool fits_beside(const TaskRecord& task,
                                 const std::vector<TaskRecord*>& stuck) const;
  [[nodiscard]] std::string deadlock_text(const TaskRecord& waiter,
                                          const std::vector<TaskRecord*>& stuck);
  [[nodiscard]] std::string shortage_text(const TaskRecord& task,
                                          const std::vector<TaskRecord*>& stuck) const;
  void admit_awaited();
  // When an idle worker must look again without being woken.
  [[nodiscard]] SchedulerBell::Time idle_limit() const;
  [[nodiscard]] SchedulerBell::Time before_deadlines(SchedulerBell::Time limit) const;
  [[nodiscard]] std::int64_t mean_exec_ns() const noexcept;
  [[nodiscard]] std::string wait_text(const TaskRecord& task) const;
  [[nodiscard]] SchedulerStats stats_locked() const;
  [[nodiscard]] std::size_t num_live() const noexcept;

  const SchedulerConfig config_;
  const std::shared_ptr<MemoryLedger> ledger_;
  const std::shared_ptr<const Clock> clock_;

  mutable std::mutex mutex_;
  std::condition_variable ended_condition_;
  std::size_t num_waiters_ = 0;  // threads in wait
  SchedulerBell bell_;           // for threads in run_until_idle and serve without work

  TaskTable table_;
  ReservationQueue queue_;
  std::set<std::pair<std::int64_t, TaskId>> deadlines_;  // of tasks that have not ended
  std::deque<TaskTransition> transitions_;
  std::vector<ReservationQueue::Change> changes_;
  std::vector<TaskRecord*> blocked_;  // running tasks that wait for others: note_blocked
  Notices notices_;
  CompletionRate rate_;
  std::int64_t now_ns_ = 0;  // of the call in progress
  bool retry_ = false;       // something was queued or released since the last pass
  bool changed_ = false;     // some task changed state during the call
  std::size_t num_bodies_running_ = 0;

  std::array<std::size_t, kNumTaskStates> num_in_state_{};
  SchedulerStats totals_;  // only the sums
};

}  // namespace gpk::runtime
