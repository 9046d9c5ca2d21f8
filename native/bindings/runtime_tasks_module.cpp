// Scheduler: Python functions as tasks; ledgers; snapshots.
#include <chrono>

#include "bindings/convert.h"
#include "bindings/runtime_bind.h"
#include "bindings/runtime_tasks.h"
#include "device/pool_ledger.h"

namespace gpk::bind {
namespace {

using runtime::QosClass;
using runtime::TaskId;
using runtime::TaskInfo;
using runtime::TaskSpec;

const WallTime& task_wall_time() {
  static const WallTime wall;
  return wall;
}

std::optional<double> task_time(std::int64_t ns) {
  return ns < 0 ? std::nullopt : std::optional(task_wall_time().at(ns));
}

void bind_ledgers(py::module_& m) {
  using runtime::LimitLedger;
  using runtime::MemoryLedger;
  py::class_<MemoryLedger, std::shared_ptr<MemoryLedger>>(m, "MemoryLedger",
                                                          "The source of a Scheduler's memory.")
      .def_property_readonly("device_bytes", &MemoryLedger::device_bytes,
                             "The capacity shared by all accounts.")
      .def("capacity", &MemoryLedger::capacity_bytes, py::arg("account") = "", Unlocked(),
           "The most an account could ever have, in bytes.")
      .def("available", &MemoryLedger::available_bytes, py::arg("account") = "", Unlocked(),
           "What could be granted to it now, in bytes.");
  py::class_<LimitLedger, MemoryLedger, std::shared_ptr<LimitLedger>>(
      m, "LimitLedger", "A total and, optionally, limits per account.")
      .def(py::init([](std::optional<std::size_t> total) {
             return std::make_shared<LimitLedger>(total.value_or(LimitLedger::kUnlimited));
           }),
           py::arg("total") = py::none())
      .def("set_account_limit", &LimitLedger::set_account_limit, py::arg("account"),
           py::arg("size"), Unlocked(), "May be below what it holds: it then gets nothing more.")
      .def_property_readonly(
          "reserved", [](const LimitLedger& l) { return l.reserved_bytes(); },
          "By all accounts, in bytes.")
      .def(
          "reserve",
          [](LimitLedger& l, std::size_t size, const std::string& account) {
            return l.reserve(size, account) == runtime::ReserveResult::kGranted;
          },
          py::arg("size"), py::arg("account") = "", Unlocked(),
          "False when it would exceed a limit.")
      .def("release", &LimitLedger::release, py::arg("size"), py::arg("account") = "", Unlocked(),
           "Releases an earlier reservation.");
  py::class_<device::PoolLedger, MemoryLedger, std::shared_ptr<device::PoolLedger>>(
      m, "PoolLedger", "Holds reservations in the memory pool of a device, within `limits`.")
      .def(py::init([](std::optional<std::shared_ptr<MemoryLedger>> limits, py::handle device) {
             return std::make_shared<device::PoolLedger>(device_from_python(device, "PoolLedger"),
                                                         std::move(limits).value_or(nullptr));
           }),
           py::arg("limits") = py::none(), py::kw_only(), py::arg("device") = py::none());
}

void bind_task_info(py::module_& m) {
  using I = TaskInfo;
  py::class_<I>(m, "TaskInfo", "A snapshot of a task; times in seconds since 1970.")
      .def_readonly("id", &I::id, "From 1.")
      .def_readonly("name", &I::name, "For display.")
      .def_readonly("account", &I::account, "The account charged for its memory: a partition.")
      .def_readonly("owner", &I::owner, "Id of its client.")
      .def_readonly("qos", &I::qos, "Its class.")
      .def_readonly("priority", &I::priority, "Its own, without the class's.")
      .def_readonly("memory", &I::memory_bytes, "Bytes requested.")
      .def_readonly("reserved_memory", &I::reserved_memory_bytes, "Bytes held now.")
      .def_readonly("bandwidth", &I::bandwidth, "Share of the device.")
      .def_readonly("dependencies", &I::dependencies, "Ids.")
      .def_property_readonly(
          "state", [](const I& i) { return std::string(to_string(i.state)); }, "\"running\", ...")
      .def_property_readonly("is_terminal", &I::is_terminal, "It has ended.")
      .def_property_readonly(
          "submitted_at", [](const I& i) { return task_time(i.submitted_ns()); }, "Or None.")
      .def_property_readonly(
          "started_at", [](const I& i) { return task_time(i.started_ns()); }, "Or None.")
      .def_property_readonly(
          "ended_at", [](const I& i) { return task_time(i.ended_ns()); }, "Or None.")
      .def_property_readonly(
          "deadline", [](const I& i) { return task_time(i.deadline_ns.value_or(-1)); }, "Or None.")
      .def_property_readonly(
          "wait_time", [](const I& i) { return seconds(i.wait_ns(SteadyClock().now_ns())); },
          "Seconds until it started or ended, or until now.")
      .def_property_readonly(
          "exec_time", [](const I& i) { return seconds(i.exec_ns(SteadyClock().now_ns())); },
          "Seconds from its start to its end or now.")
      .def_property_readonly(
          "wait_reason", [](const I& i) { return std::string(to_string(i.wait_reason)); },
          "Why it is not running.")
      .def_readonly("reason", &I::reason, "Why it failed or was cancelled.")
      .def_property_readonly(
          "first_cause",
          [](const I& i) {
            return i.first_cause == runtime::kNoTask ? std::nullopt : std::optional(i.first_cause);
          },
          "The task that caused this one to fail, or None.")
      .def_readonly("cancel_requested", &I::cancel_requested, "Cancellation was requested.")
      .def_readonly("missed_deadline", &I::missed_deadline, "It did not start or end in time.");
}

void bind_snapshot(py::module_& m) {
  using Q = runtime::QueueEntry;
  py::class_<Q>(m, "QueueEntry", "A waiting task.")
      .def_readonly("position", &Q::position, "From 0, in service order.")
      .def_readonly("id", &Q::id, "The task.")
      .def_readonly("label", &Q::label, "Its name.")
      .def_property_readonly(
          "state", [](const Q& q) { return std::string(to_string(q.state)); },
          "\"pending\", \"queued\" or \"admitted\".")
      .def_readonly("reason", &Q::text, "What it waits for, with figures.");
  using A = runtime::AccountReservation;
  py::class_<A>(m, "AccountReservation", "The reservations of an account; memory in bytes.")
      .def_readonly("account", &A::account, "A partition, or \"\".")
      .def_readonly("reserved", &A::reserved_bytes, "Held by its tasks.")
      .def_readonly("task_count", &A::num_tasks, "Tasks with a reservation.")
      .def_readonly("queued_count", &A::num_queued, "Waiting tasks.")
      .def_readonly("available", &A::available_bytes, "What it could be granted now.")
      .def_readonly("capacity", &A::capacity_bytes, "The most it could ever be granted.");
  using S = runtime::SchedulerSnapshot;
  py::class_<S>(m, "SchedulerSnapshot", "A snapshot of a scheduler.")
      .def_property_readonly(
          "time", [](const S& s) { return task_wall_time().at(s.now_ns); }, "Seconds since 1970.")
      .def_property_readonly(
          "policy", [](const S& s) { return std::string(to_string(s.policy)); }, "\"fifo\", ...")
      .def_readonly("stats", &S::stats, "Statistics.")
      .def_readonly("tasks", &S::tasks, "By id, including ended ones that are still kept.")
      .def_readonly("queue", &S::queue, "Waiting tasks, in order.")
      .def_readonly("reservations", &S::reservations, "By account.")
      .def("text", &S::text, "A readable table.");
}

TaskId submit_task(TaskEngine& self, const std::optional<py::function>& body, std::string name,
                   std::string account, std::uint64_t owner, QosClass qos, int priority,
                   std::size_t memory, double bandwidth, double estimate,
                   std::optional<double> deadline, std::vector<TaskId> after, bool on_stream,
                   std::optional<QosClass> stream_class,
                   std::optional<std::shared_ptr<device::DevicePartition>> partition) {
  TaskSpec spec;
  spec.name = std::move(name);
  spec.account = std::move(account);
  spec.owner = owner;
  spec.qos = qos;
  spec.priority = priority;
  spec.memory_bytes = memory;
  spec.bandwidth = bandwidth;
  spec.estimated_ns = nanoseconds(estimate, kNsPerSecond, "submit: estimate");
  spec.deadline_ns =
      deadline_after(self.scheduler().clock().now_ns(), deadline, "submit: deadline");
  spec.dependencies = std::move(after);
  std::shared_ptr<void> kept = body ? keep_alive(*body) : nullptr;
  const WithoutGil released;
  return self.submit(std::move(spec), std::move(kept),
                     {on_stream, stream_class, std::move(partition).value_or(nullptr)});
}

// In steps, so that Ctrl-C is noticed.
std::optional<TaskInfo> wait_for_task(TaskEngine& self, TaskId id, std::optional<double> timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kStepNs = 100'000'000;
  // At most a century ahead: the clock's range ends after three.
  constexpr std::int64_t kMaxNs = std::int64_t{100} * 365 * 86'400 * 1'000'000'000;
  const std::int64_t timeout_ns =
      timeout ? std::min(nanoseconds(*timeout, kNsPerSecond, "wait: timeout"), kMaxNs) : 0;
  const auto limit = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  std::optional<runtime::Scheduler::BodyWait> without_limit;
  if (!timeout) {
    const WithoutGil released;
    without_limit.emplace(self.scheduler(), id);
  }
  const device::TaskStreams::Loan loan(TaskEngine::streams_of_body());
  for (;;) {
    const std::int64_t left_ns = std::chrono::nanoseconds(limit - Clock::now()).count();
    const std::int64_t step_ns = timeout ? std::min(left_ns, kStepNs) : kStepNs;
    std::optional<TaskInfo> info;
    {
      const WithoutGil released;
      info =
          self.scheduler().wait(id, std::chrono::nanoseconds(std::max<std::int64_t>(step_ns, 0)));
    }
    if (info) return info;
    if (timeout && Clock::now() >= limit) return std::nullopt;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void call_at_end(TaskEngine& self, TaskId id, const py::function& callback) {
  std::shared_ptr<void> kept = keep_alive(callback);
  const WithoutGil released;
  self.scheduler().on_end(id, [kept = std::move(kept)](const TaskInfo& info) {
    if (python_has_ended()) return;
    const WithGil gil;
    try {
      call_function(static_cast<PyObject*>(kept.get()), py::make_tuple(info));
    } catch (py::error_already_set& error) {
      report_unraisable(error, "the callback of a task");
    }
  });
}

std::unique_ptr<TaskEngine> make_engine(
    std::optional<std::shared_ptr<runtime::MemoryLedger>> ledger, const std::string& policy,
    double total_bandwidth, double aging, std::int64_t sjf_patience, std::size_t max_pending,
    bool best_effort, std::size_t max_ended, std::size_t max_streams, py::handle device) {
  TaskEngine::Options options;
  options.scheduler.order = {
      .policy = schedule_policy(policy),
      .aging_interval_ns = nanoseconds(aging, kNsPerSecond, "Scheduler: aging_interval"),
      .sjf_patience = sjf_patience};
  options.scheduler.total_bandwidth = total_bandwidth;
  options.scheduler.max_pending_tasks = max_pending;
  options.scheduler.enable_best_effort = best_effort;
  options.scheduler.max_ended_kept = max_ended;
  options.device = device_from_python(device, "Scheduler");
  options.max_streams = max_streams;
  return std::make_unique<TaskEngine>(std::move(ledger).value_or(nullptr), options);
}

template <class Class>
void bind_engine_control(Class& engine) {
  using E = TaskEngine;
  const auto id = py::arg("task_id");
  engine
      .def(
          "cancel",
          [](E& e, TaskId i, const std::string& why) { return e.scheduler().cancel(i, why); }, id,
          py::arg("reason") = "cancelled", Unlocked(), "False when it has ended already.")
      .def(
          "cancel_owner",
          [](E& e, std::uint64_t owner, const std::string& why) {
            return e.scheduler().cancel_owner(owner, why);
          },
          py::arg("owner"), py::arg("reason") = "its owner is gone", Unlocked(),
          "Cancels all tasks of a client; returns how many.")
      .def(
          "run_ready", [](E& e, std::size_t n) { return e.run_ready(n); }, py::arg("max_tasks"),
          Unlocked(), "Runs ready tasks on this thread; returns how many.")
      .def(
          "run_until_idle", [](E& e) { return e.run_until_idle(); }, Unlocked(),
          "Runs tasks on this thread until none is ready; returns how many.")
      .def("serve", &E::serve, Unlocked(), "Runs tasks on this thread until stop().")
      .def("stop", &E::stop, Unlocked(), "Ends serve() on all threads, permanently.")
      .def(
          "poll", [](E& e) { e.scheduler().poll(); }, Unlocked(), "Rechecks deadlines and memory.")
      .def(
          "clear", [](E& e) { e.scheduler().clear(); }, Unlocked(), "Cancels and drops all tasks.");
}

}  // namespace

void bind_runtime_tasks(py::module_& m) {
  bind_ledgers(m);
  bind_task_info(m);
  bind_snapshot(m);
  using E = TaskEngine;
  const auto id = py::arg("task_id");
  py::class_<E> engine(m, "Scheduler", "Python functions as tasks on streams of their own.");
  engine
      .def(py::init(&make_engine), py::arg("ledger") = py::none(), py::kw_only(),
           py::arg("policy") = "fifo", py::arg("total_bandwidth") = 1.0,
           py::arg("aging_interval") = 0.1, py::arg("sjf_patience") = 100,
           py::arg("max_pending_tasks") = 1000, py::arg("enable_best_effort") = true,
           py::arg("max_ended_kept") = 16384, py::arg("max_streams") = 32,
           py::arg("device") = py::none())
      .def("submit", submit_task, py::arg("body"), py::kw_only(), py::arg("name") = "",
           py::arg("account") = "", py::arg("owner") = 0,
           py::arg_v("qos", QosClass::kBestEffort, "..."), py::arg("priority") = 0,
           py::arg("memory") = 0, py::arg("bandwidth") = 0.0, py::arg("estimate") = 0.0,
           py::arg("deadline") = py::none(), py::arg("after") = std::vector<TaskId>(),
           py::arg("on_stream") = true, py::arg("stream_class") = py::none(),
           py::arg("partition") = py::none(),
           "Submits a task and returns its id. Times in seconds, the deadline from now.")
      .def(
          "evaluate_admission",
          [](E& e, std::size_t memory, double bandwidth, std::string account,
             std::vector<TaskId> after) {
            TaskSpec spec;
            spec.memory_bytes = memory;
            spec.bandwidth = bandwidth;
            spec.account = std::move(account);
            spec.dependencies = std::move(after);
            return e.scheduler().evaluate_admission(spec);
          },
          py::arg("memory"), py::arg("bandwidth") = 0.0, py::arg("account") = "",
          py::arg("after") = std::vector<TaskId>(), Unlocked(),
          "The decision for such a task now, and its reason.")
      .def(
          "state", [](E& e, TaskId i) { return std::string(to_string(e.scheduler().state(i))); },
          id, Unlocked(), "\"pending\", \"queued\", \"admitted\", \"running\", ...")
      .def(
          "info", [](E& e, TaskId i) { return e.scheduler().info(i); }, id, Unlocked(),
          "Everything known about a task.")
      .def("wait", wait_for_task, id, py::arg("timeout") = py::none(),
           "Waits until it has ended, at most `timeout` seconds; None on a timeout.")
      .def("exception", &E::exception, id, "The exception of a failed task, or None.")
      .def("on_end", call_at_end, id, py::arg("callback"),
           "Calls a function with the TaskInfo when it has ended, on any thread.")
      .def(
          "stats", [](E& e) { return e.scheduler().stats(); }, Unlocked(), "Current statistics.")
      .def(
          "snapshot", [](E& e) { return e.scheduler().snapshot(); }, Unlocked(),
          "A consistent snapshot.")
      .def_property_readonly(
          "streams_in_use", [](E& e) { return e.streams().num_in_use(); }, "Streams with work.")
      .def_property_readonly(
          "max_streams", [](E& e) { return e.streams().max_streams(); },
          "Maximum number of streams.")
      .def_property_readonly(
          "device", [](E& e) { return to_string(e.streams().device()); }, "'cuda:0' or 'cpu'.");
  bind_engine_control(engine);
  bind_driven_tasks(engine);
  m.def(
      "end_python", [] { python_has_ended() = true; },
      "At exit: from now on no thread of the runtime calls into Python.");
}

}  // namespace gpk::bind
