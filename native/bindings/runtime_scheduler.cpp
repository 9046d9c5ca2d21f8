// The scheduler of the 0.2 API: tasks without a body, driven by the caller.
#include "bindings/runtime_bind.h"
#include "runtime/scheduler/scheduler.h"

namespace gpk::bind {
namespace {

using runtime::TaskId;
using runtime::TaskInfo;
using runtime::TaskSpec;
using State = runtime::TaskState;

enum class OldState { kPending = 0, kRunning = 1, kCompleted = 2, kFailed = 3, kCancelled = 4 };

OldState old_state(State state) noexcept {
  switch (state) {
    case State::kRunning: return OldState::kRunning;
    case State::kCompleted: return OldState::kCompleted;
    case State::kFailed: return OldState::kFailed;
    case State::kCancelled: return OldState::kCancelled;
    case State::kPending:
    case State::kQueued:
    case State::kAdmitted: break;
  }
  return OldState::kPending;
}

// A task as given to submit, or a copy of one that was.
struct TaskMeta {
  std::string id;
  std::string name;
  OldState state = OldState::kPending;
  int priority = 0;
  std::size_t memory_estimate = 0;
  std::vector<std::string> dependencies;
  double submitted_at = 0.0;
  std::optional<double> started_at;
  std::optional<double> completed_at;
  std::optional<std::string> error;

  [[nodiscard]] bool is_terminal() const noexcept { return state >= OldState::kCompleted; }
  [[nodiscard]] double elapsed() const {
    if (!started_at) return 0.0;
    return completed_at.value_or(WallTime().now()) - *started_at;
  }
  [[nodiscard]] std::optional<double> duration() const {
    if (!started_at || !completed_at) return std::nullopt;
    return *completed_at - *started_at;
  }
};

struct OldTaskStats {
  std::string id;
  std::string name;
  OldState state;
  double wait_time;
  double exec_time;
  std::size_t memory_used;
};

class OldScheduler {
 public:
  OldScheduler(std::optional<std::size_t> memory, double tick_ms, double window)
      : total_memory(memory), sched_tick_ms(tick_ms), window_ms(window) {
    runtime::SchedulerConfig config;
    config.unknown_dependency_is_met = true;
    scheduler_ = std::make_unique<runtime::Scheduler>(
        std::make_shared<runtime::LimitLedger>(memory.value_or(runtime::LimitLedger::kUnlimited)),
        config);
  }

  std::string submit(const TaskMeta& task) {
    scheduler_->submit(spec(task));
    return task.id;
  }
  [[nodiscard]] runtime::AdmissionDecision evaluate(const TaskMeta& task) const {
    return scheduler_->evaluate_admission(spec(task));
  }
  runtime::AdmissionDecision admit(const TaskMeta& task) {
    return scheduler_->admit(spec(task)).decision;
  }
  std::vector<std::string> runnable(std::size_t max_tasks) {
    std::vector<std::string> keys;
    for (const TaskId id : scheduler_->start_runnable(max_tasks))
      keys.push_back(scheduler_->info(id).key);
    return keys;
  }

  // False for ids that are not known.
  template <class Change>
  bool change(const std::string& key, const Change& change) {
    const TaskId id = scheduler_->find(key);
    return id != runtime::kNoTask && change(*scheduler_, id);
  }

  [[nodiscard]] std::optional<TaskMeta> get(const std::string& key) const {
    const TaskId id = scheduler_->find(key);
    if (id == runtime::kNoTask) return std::nullopt;
    return meta(scheduler_->info(id));
  }
  [[nodiscard]] std::optional<OldState> state(const std::string& key) const {
    const TaskId id = scheduler_->find(key);
    if (id == runtime::kNoTask) return std::nullopt;
    return old_state(scheduler_->state(id));
  }
  [[nodiscard]] std::optional<OldTaskStats> task_stats(const std::string& key) const {
    const TaskId id = scheduler_->find(key);
    if (id == runtime::kNoTask) return std::nullopt;
    const TaskInfo info = scheduler_->info(id);
    const std::int64_t now = scheduler_->clock().now_ns();
    return OldTaskStats{info.key,
                        info.name,
                        old_state(info.state),
                        seconds(info.wait_ns(now)),
                        seconds(info.exec_ns(now)),
                        info.is_terminal() ? 0 : info.memory_bytes};
  }
  [[nodiscard]] runtime::SchedulerStats stats() const { return scheduler_->stats(); }
  [[nodiscard]] runtime::AdmissionStats admission() const { return scheduler_->admission_stats(); }
  [[nodiscard]] std::string text() const { return scheduler_->snapshot().text(); }
  void clear() { scheduler_->clear(); }

  const std::optional<std::size_t> total_memory;
  const double sched_tick_ms;
  const double window_ms;

 private:
  static TaskSpec spec(const TaskMeta& task) {
    TaskSpec out;
    out.key = task.id;
    out.name = task.name;
    out.priority = task.priority;
    out.memory_bytes = task.memory_estimate;
    out.dependency_keys = task.dependencies;
    return out;
  }

  [[nodiscard]] TaskMeta meta(const TaskInfo& info) const {
    TaskMeta task;
    task.id = info.key;
    task.name = info.name;
    task.state = old_state(info.state);
    task.priority = info.priority;
    task.memory_estimate = info.memory_bytes;
    for (const TaskId id : info.dependencies) task.dependencies.push_back(key_of(id));
    task.submitted_at = wall_.at(info.submitted_ns());
    if (info.started_ns() >= 0) task.started_at = wall_.at(info.started_ns());
    if (info.is_terminal()) task.completed_at = wall_.at(info.ended_ns());
    if (!info.reason.empty()) task.error = info.reason;
    return task;
  }
  [[nodiscard]] std::string key_of(TaskId id) const {
    try {
      return scheduler_->info(id).key;
    } catch (const runtime::Error&) {  // forgotten meanwhile
      return std::to_string(id);
    }
  }

  WallTime wall_;
  std::unique_ptr<runtime::Scheduler> scheduler_;
};

void bind_old_enums(py::module_& m) {
  number_enum<OldState>(m, "TaskState", "Where a task is.")
      .value("Pending", OldState::kPending)
      .value("Running", OldState::kRunning)
      .value("Completed", OldState::kCompleted)
      .value("Failed", OldState::kFailed)
      .value("Cancelled", OldState::kCancelled);
  using runtime::SchedulePolicy;
  number_enum<SchedulePolicy>(m, "TaskPolicy", "In which order tasks are served.")
      .value("Fifo", SchedulePolicy::kFifo)
      .value("Sjf", SchedulePolicy::kSjf)
      .value("Priority", SchedulePolicy::kPriority);
}

void bind_task_meta(py::module_& m) {
  using T = TaskMeta;
  py::class_<T>(m, "TaskMeta", "A task: what it asks for and how far it got.")
      .def(py::init([](std::string id, std::string name, std::size_t memory, int priority,
                       std::optional<std::vector<std::string>> dependencies) {
             T task;
             task.id = std::move(id);
             task.name = std::move(name);
             task.memory_estimate = memory;
             task.priority = priority;
             if (dependencies) task.dependencies = *std::move(dependencies);
             task.submitted_at = WallTime().now();
             return task;
           }),
           py::arg("id"), py::arg("name"), py::arg("memory_estimate") = 0, py::arg("priority") = 0,
           py::arg("dependencies") = py::none())
      .def_readonly("id", &T::id, "The caller's id.")
      .def_readonly("name", &T::name, "For people.")
      .def_readonly("state", &T::state, "Where it is.")
      .def_property_readonly(
          "policy", [](const T&) { return runtime::SchedulePolicy::kFifo; }, "Always Fifo.")
      .def_readonly("priority", &T::priority, "Kept; order is first come, first served.")
      .def_readonly("memory_estimate", &T::memory_estimate, "Bytes it reserves.")
      .def_readonly("submitted_at", &T::submitted_at, "Seconds since 1970.")
      .def_readonly("started_at", &T::started_at, "Seconds since 1970, or None.")
      .def_readonly("completed_at", &T::completed_at, "Seconds since 1970, or None.")
      .def_readonly("error", &T::error, "Why it failed or was cancelled, or None.")
      .def_readonly("dependencies", &T::dependencies, "Ids it waits for.")
      .def("is_terminal", &T::is_terminal, "It has ended.")
      .def("elapsed", &T::elapsed, "Seconds since it started, until its end; 0 before.")
      .def("duration", &T::duration, "Seconds from start to end, or None.");
}

void bind_old_stats(py::module_& m) {
  using S = runtime::SchedulerStats;
  py::class_<S>(m, "SchedulerStats", "Figures of a scheduler; memory in bytes, times in seconds.")
      .def_readonly("total_submitted", &S::total_submitted, "So far.")
      .def_property_readonly("pending_count", &S::num_waiting, "Waiting for whatever reason.")
      .def_property_readonly(
          "running_count", [](const S& s) { return s.count(State::kRunning); }, "Now.")
      .def_property_readonly(
          "completed_count", [](const S& s) { return s.count(State::kCompleted); }, "So far.")
      .def_property_readonly(
          "failed_count", [](const S& s) { return s.count(State::kFailed); }, "So far.")
      .def_property_readonly(
          "cancelled_count", [](const S& s) { return s.count(State::kCancelled); }, "So far.")
      .def_readonly("reserved_memory", &S::reserved_memory_bytes, "Held by tasks.")
      .def_readonly("available_memory", &S::available_memory_bytes, "Left.")
      .def_readonly("reserved_bandwidth", &S::reserved_bandwidth, "Share of the device.")
      .def_readonly("available_bandwidth", &S::available_bandwidth, "Share of the device.")
      .def_property_readonly(
          "avg_wait_time", [](const S& s) { return s.avg_wait_ns() / 1e9; }, "Of started tasks.")
      .def_property_readonly(
          "avg_exec_time", [](const S& s) { return s.avg_exec_ns() / 1e9; }, "Of executed tasks.")
      .def_readonly("num_transitions", &S::num_transitions, "Changes of state so far.")
      .def_readonly("num_missed_deadlines", &S::num_missed_deadlines, "So far.")
      .def_readonly("num_callback_errors", &S::num_callback_errors, "So far.");
  using T = OldTaskStats;
  py::class_<T>(m, "TaskStats", "Figures of a task; times in seconds.")
      .def_readonly("id", &T::id, "The caller's id.")
      .def_readonly("name", &T::name, "For people.")
      .def_readonly("state", &T::state, "Where it is.")
      .def_readonly("wait_time", &T::wait_time, "Until it started or ended, or until now.")
      .def_readonly("exec_time", &T::exec_time, "From its start to its end or now.")
      .def_readonly("memory_used", &T::memory_used, "Bytes it asks for; 0 when it has ended.");
}

}  // namespace

void bind_runtime_scheduler(py::module_& m) {
  bind_old_enums(m);
  bind_task_meta(m);
  bind_old_stats(m);
  using S = OldScheduler;
  using runtime::Scheduler;
  const auto id = py::arg("task_id");
  const auto task = py::arg("task");
  py::class_<S>(m, "Scheduler", "Tasks that the caller runs: submit, start, complete.")
      .def(py::init<std::optional<std::size_t>, double, double>(),
           py::arg("total_memory") = py::none(), py::arg("sched_tick_ms") = 10.0,
           py::arg("window_ms") = 100.0)
      .def_readonly("total_memory", &S::total_memory, "Bytes, or None.")
      .def_readonly("sched_tick_ms", &S::sched_tick_ms, "As given.")
      .def_readonly("window_ms", &S::window_ms, "As given.")
      .def("submit", &S::submit, task, Unlocked(), "Queues a task; its id.")
      .def("evaluate_admission", &S::evaluate, task, Unlocked(), "What admit would say.")
      .def("admit", &S::admit, task, Unlocked(), "Decides; queues the task unless it rejects it.")
      .def("admission_stats", &S::admission, Unlocked(), "Figures of admit.")
      .def("get_runnable_tasks", &S::runnable, py::arg("max_tasks") = 1, Unlocked(),
           "Starts up to so many tasks that may run; their ids.")
      .def(
          "should_run",
          [](S& s, const std::string& key) {
            return s.change(key, [](Scheduler& on, TaskId i) { return on.should_run(i); });
          },
          id, Unlocked(), "It waits, its dependencies are met and its memory is there.")
      .def(
          "start_task",
          [](S& s, const std::string& key) {
            return s.change(key, [](Scheduler& on, TaskId i) { return on.start(i); });
          },
          id, Unlocked(), "Pending to running.")
      .def(
          "complete_task",
          [](S& s, const std::string& key) {
            return s.change(key, [](Scheduler& on, TaskId i) { return on.complete(i); });
          },
          id, Unlocked(), "Running to completed.")
      .def(
          "fail_task",
          [](S& s, const std::string& key, const std::string& error) {
            return s.change(key, [&](Scheduler& on, TaskId i) { return on.fail(i, error); });
          },
          id, py::arg("error"), Unlocked(), "Pending or running to failed.")
      .def(
          "cancel_task",
          [](S& s, const std::string& key) {
            return s.change(key, [](Scheduler& on, TaskId i) { return on.cancel(i); });
          },
          id, Unlocked(), "Any state that is not an end to cancelled.")
      .def("get_task", &S::get, id, Unlocked(), "The task as it is now, or None.")
      .def("get_task_state", &S::state, id, Unlocked(), "Where it is, or None.")
      .def("stats", &S::stats, Unlocked(), "The figures now.")
      .def("task_stats", &S::task_stats, id, Unlocked(), "Figures of a task, or None.")
      .def("clear", &S::clear, Unlocked(), "Cancels and forgets everything.")
      .def("text", &S::text, Unlocked(), "Queue, reservations and running tasks as a table.");
}

}  // namespace gpk::bind
