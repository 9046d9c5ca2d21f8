// Statistics of a scheduler, and tasks without a function, which the caller drives.
#include "bindings/runtime_bind.h"
#include "bindings/runtime_tasks.h"

namespace gpk::bind {
namespace {

using runtime::TaskId;
using runtime::TaskSpec;
using State = runtime::TaskState;

std::pair<runtime::AdmissionDecision, std::optional<TaskId>> admit_task(
    TaskEngine& self, std::size_t memory, std::string name, double bandwidth, int priority,
    std::vector<TaskId> after) {
  TaskSpec spec;
  spec.name = std::move(name);
  spec.priority = priority;
  spec.memory_bytes = memory;
  spec.bandwidth = bandwidth;
  spec.dependencies = std::move(after);
  runtime::AdmissionOutcome outcome = self.scheduler().admit(std::move(spec));
  const bool taken_in = outcome.id != runtime::kNoTask;
  return {std::move(outcome.decision), taken_in ? std::optional(outcome.id) : std::nullopt};
}

}  // namespace

void bind_runtime_scheduler(py::module_& m) {
  using S = runtime::SchedulerStats;
  py::class_<S>(m, "SchedulerStats",
                "Statistics of a scheduler; memory in bytes, times in seconds.")
      .def_readonly("total_submitted", &S::total_submitted, "So far.")
      .def_property_readonly("pending_count", &S::num_waiting, "Waiting for any reason.")
      .def_property_readonly(
          "running_count", [](const S& s) { return s.count(State::kRunning); }, "Now.")
      .def_property_readonly(
          "completed_count", [](const S& s) { return s.count(State::kCompleted); }, "So far.")
      .def_property_readonly(
          "failed_count", [](const S& s) { return s.count(State::kFailed); }, "So far.")
      .def_property_readonly(
          "cancelled_count", [](const S& s) { return s.count(State::kCancelled); }, "So far.")
      .def_readonly("reserved_memory", &S::reserved_memory_bytes, "Held by tasks.")
      .def_readonly("available_memory", &S::available_memory_bytes, "Available.")
      .def_readonly("reserved_bandwidth", &S::reserved_bandwidth, "Share of the device.")
      .def_readonly("available_bandwidth", &S::available_bandwidth, "Share of the device.")
      .def_property_readonly(
          "avg_wait_time", [](const S& s) { return s.avg_wait_ns() / 1e9; }, "Of started tasks.")
      .def_property_readonly(
          "avg_exec_time", [](const S& s) { return s.avg_exec_ns() / 1e9; }, "Of executed tasks.")
      .def_readonly("num_transitions", &S::num_transitions, "State changes so far.")
      .def_readonly("num_missed_deadlines", &S::num_missed_deadlines, "So far.")
      .def_readonly("num_callback_errors", &S::num_callback_errors, "So far.");
}

void bind_driven_tasks(py::class_<TaskEngine>& engine) {
  using E = TaskEngine;
  const auto id = py::arg("task_id");
  engine
      .def("admit", admit_task, py::arg("memory"), py::kw_only(), py::arg("name") = "",
           py::arg("bandwidth") = 0.0, py::arg("priority") = 0,
           py::arg("after") = std::vector<TaskId>(), Unlocked(),
           "Runs admission control and submits a task without a function unless it is rejected. "
           "Returns the decision, and the task's id or None.")
      .def(
          "should_run", [](E& e, TaskId i) { return e.scheduler().should_run(i); }, id, Unlocked(),
          "start() would succeed.")
      .def(
          "start", [](E& e, TaskId i) { return e.scheduler().start(i); }, id, Unlocked(),
          "Starts a task without a function, which the caller runs.")
      .def(
          "start_runnable", [](E& e, std::size_t n) { return e.scheduler().start_runnable(n); },
          py::arg("max_tasks"), Unlocked(),
          "Starts tasks that may run, in order; returns their ids.")
      .def(
          "complete", [](E& e, TaskId i) { return e.scheduler().complete(i); }, id, Unlocked(),
          "Completes a task without a function.")
      .def(
          "fail", [](E& e, TaskId i, const std::string& why) { return e.scheduler().fail(i, why); },
          id, py::arg("reason"), Unlocked(), "Fails a task without a function.");
}

}  // namespace gpk::bind
