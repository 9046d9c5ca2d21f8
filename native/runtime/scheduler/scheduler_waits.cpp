// Scheduler: tasks that wait for tasks. A waiting body keeps its reservation, so a task that does
// not fit beside it never starts, and the wait never ends.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "runtime/scheduler/scheduler.h"
#include "runtime/scheduler/scheduler_body.h"
#include "runtime/scheduler/scheduler_section.h"

namespace gpk::runtime {
namespace {

bool contains(const std::vector<TaskRecord*>& tasks, const TaskRecord& task) {
  return std::find(tasks.begin(), tasks.end(), &task) != tasks.end();
}

struct Held {
  std::size_t account_bytes = 0;  // of one account
  std::size_t bytes = 0;          // of all
  SharePpb bandwidth_ppb = 0;
};

Held held_by(const std::vector<TaskRecord*>& tasks, const std::string& account) {
  Held held;
  for (const TaskRecord* task : tasks) {
    if (!task->holds_reservation) continue;
    if (task->spec.account == account) held.account_bytes += task->spec.memory_bytes;
    held.bytes += task->spec.memory_bytes;
    held.bandwidth_ppb += task->bandwidth_ppb;
  }
  return held;
}

bool fits(std::size_t need, std::size_t held, std::size_t capacity) {
  return held <= capacity && need <= capacity - held;
}

}  // namespace

// --- a wait inside a body ------------------------------------------------------------------------

Scheduler::BodyWait::BodyWait(Scheduler& scheduler, TaskId id) : scheduler_(scheduler) {
  const RunningBody* body = innermost_body;
  if (body == nullptr || body->scheduler != &scheduler) return;
  scheduler.locked([&] {
    TaskRecord& awaited = scheduler.table_.at(id, "Scheduler: wait");
    if (is_terminal(awaited.state)) return;
    TaskRecord& waiter = *body->task;
    TaskRecord* const outer = std::exchange(waiter.waits_for, &awaited);
    scheduler.note_blocked(waiter);
    const std::vector<TaskRecord*> stuck = scheduler.stuck_tasks();
    if (contains(stuck, waiter)) {
      const std::string text = scheduler.deadlock_text(waiter, stuck);
      waiter.waits_for = outer;
      scheduler.note_blocked(waiter);
      throw DeadlockError(text);
    }
    ++awaited.num_waiters;  // the record stays
    scheduler.retry_ = true;
    waiter_ = &waiter;
    outer_ = outer;
  });
}

Scheduler::BodyWait::~BodyWait() {
  if (waiter_ == nullptr) return;
  const std::lock_guard lock(scheduler_.mutex_);
  --waiter_->waits_for->num_waiters;
  waiter_->waits_for = outer_;
  scheduler_.note_blocked(*waiter_);
}

// A task is blocked while its body waits without a timeout, or its thread runs another one.
void Scheduler::note_blocked(TaskRecord& task) {
  const auto place = std::find(blocked_.begin(), blocked_.end(), &task);
  const bool blocked = task.waits_for != nullptr || task.above != nullptr;
  if (blocked && place == blocked_.end()) blocked_.push_back(&task);
  if (!blocked && place != blocked_.end()) blocked_.erase(place);
}

// The first match among `root` and everything that must end before it can.
TaskRecord* Scheduler::find_needed(TaskRecord& root, const TaskTest& matches) {
  std::vector<TaskRecord*> open = {&root};
  std::unordered_set<const TaskRecord*> seen = {&root};
  const auto add = [&](TaskRecord* task) {
    if (task != nullptr && !is_terminal(task->state) && seen.insert(task).second)
      open.push_back(task);
  };
  for (std::size_t i = 0; i < open.size(); ++i) {
    TaskRecord& task = *open[i];
    if (matches(task)) return &task;
    add(task.above);
    add(task.waits_for);
    if (task.state == TaskState::kPending)
      for (const TaskId id : task.spec.dependencies) add(table_.find(id));
  }
  return nullptr;
}

// --- deadlock detection --------------------------------------------------------------------------

// What keeps `task` from ending unless a `stuck` one does; nullptr: nothing known. Memory held by
// others, inside the scheduler or not, may become free.
TaskRecord* Scheduler::obstacle_of(TaskRecord& task, const std::vector<TaskRecord*>& stuck) {
  return find_needed(task, [&](const TaskRecord& needed) {
    switch (needed.state) {
      case TaskState::kRunning: return contains(stuck, needed);
      case TaskState::kPending:
      case TaskState::kQueued: return !fits_beside(needed, stuck);
      default: return false;
    }
  });
}

// True too when its deadline will end it.
bool Scheduler::fits_beside(const TaskRecord& task, const std::vector<TaskRecord*>& stuck) const {
  if (task.spec.deadline_ns) return true;
  const Held held = held_by(stuck, task.spec.account);
  const std::size_t bytes = task.spec.memory_bytes;
  const SharePpb total_ppb = queue_.available_ppb() + queue_.reserved_ppb();
  return held.bandwidth_ppb + task.bandwidth_ppb <= total_ppb &&
         (bytes == 0 ||
          (fits(bytes, held.account_bytes, ledger_->capacity_bytes(task.spec.account)) &&
           fits(bytes, held.bytes, ledger_->device_bytes())));
}

// The blocked tasks that can never proceed: removes those that still may, to a fixed point.
std::vector<TaskRecord*> Scheduler::stuck_tasks() {
  std::vector<TaskRecord*> stuck = blocked_;
  for (;;) {
    std::vector<TaskRecord*> left;
    for (TaskRecord* task : stuck)
      if ((task->waits_for != nullptr && obstacle_of(*task->waits_for, stuck) != nullptr) ||
          (task->above != nullptr && obstacle_of(*task->above, stuck) != nullptr))
        left.push_back(task);
    if (left.size() == stuck.size()) return left;
    stuck = std::move(left);
  }
}

std::string Scheduler::deadlock_text(const TaskRecord& waiter,
                                     const std::vector<TaskRecord*>& stuck) {
  std::string text = cat("Scheduler: ", describe(waiter), " waits");
  std::vector<TaskRecord*> named;
  TaskRecord* next = waiter.waits_for;
  for (;;) {
    TaskRecord* const obstacle = obstacle_of(*next, stuck);
    text += cat(" for ", describe(*next));
    if (obstacle != next) text += cat(", which depends on ", describe(*obstacle));
    if (obstacle->state != TaskState::kRunning)
      return cat(text, ", which can never start: ", shortage_text(*obstacle, stuck));
    if (contains(named, *obstacle) || obstacle == &waiter) return text + ": a cycle";
    named.push_back(obstacle);
    const bool waits =
        obstacle->waits_for != nullptr && obstacle_of(*obstacle->waits_for, stuck) != nullptr;
    next = waits ? obstacle->waits_for : obstacle->above;
    text += ", which waits";
  }
}

std::string Scheduler::shortage_text(const TaskRecord& task,
                                     const std::vector<TaskRecord*>& stuck) const {
  const Held held = held_by(stuck, task.spec.account);
  const SharePpb total_ppb = queue_.available_ppb() + queue_.reserved_ppb();
  std::string text;
  if (held.bandwidth_ppb + task.bandwidth_ppb > total_ppb)
    text = cat("it needs ", share_of_ppb(task.bandwidth_ppb), " of the bandwidth, and of ",
               share_of_ppb(total_ppb), " tasks that wait hold ", share_of_ppb(held.bandwidth_ppb),
               ":");
  else
    text = cat("it needs ", bytes_text(task.spec.memory_bytes), ", and of ",
               bytes_text(ledger_->capacity_bytes(task.spec.account)), " tasks that wait hold ",
               bytes_text(held.bytes), ":");
  const char* comma = " ";
  for (const TaskRecord* holder : stuck) {
    if (!holder->holds_reservation) continue;
    text += cat(std::exchange(comma, ", "), describe(*holder), " ",
                bytes_text(holder->spec.memory_bytes));
  }
  return text;
}

// --- awaited tasks first -------------------------------------------------------------------------

// A pass considers only a limited number of tasks per account, and holds back memory for those
// passed too often. Neither may block what a running task waits for: that task's memory is released
// only afterwards.
void Scheduler::admit_awaited() {
  std::vector<TaskRecord*> queued;
  for (const TaskRecord* task : blocked_) {
    if (task->waits_for == nullptr) continue;
    find_needed(*task->waits_for, [&](TaskRecord& needed) {
      if (needed.state == TaskState::kQueued) queued.push_back(&needed);
      return false;
    });
  }
  for (TaskRecord* task : queued) {
    if (task->state != TaskState::kQueued) continue;
    queue_.admit_if_free(*task, changes_);
    apply_changes();
  }
}

TaskRecord* Scheduler::next_to_run(TaskRecord* awaited) {
  TaskRecord* const first = queue_.first_admitted(true);
  if (awaited == nullptr || first == nullptr) return first;
  TaskRecord* const needed = find_needed(*awaited, [](const TaskRecord& task) {
    return task.state == TaskState::kAdmitted && task.with_body;
  });
  return needed != nullptr ? needed : first;
}

}  // namespace gpk::runtime
