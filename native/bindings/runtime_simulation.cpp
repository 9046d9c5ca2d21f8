// Simulation: a trace of tasks on a simulated device.
#include <cmath>

#include "bindings/runtime_bind.h"
#include "bindings/runtime_tasks.h"
#include "runtime/scheduler/simulation.h"

namespace gpk::bind {
namespace {

using runtime::QosClass;
using runtime::SimDevice;
using runtime::SimResult;
using runtime::SimSample;
using runtime::SimTask;
using runtime::SimTaskResult;
using runtime::WaitSummary;

std::int64_t sim_ns(double s, const char* what) { return nanoseconds(s, kNsPerSecond, what); }

std::optional<double> sim_time(std::int64_t ns) {
  return ns < 0 ? std::nullopt : std::optional(seconds(ns));
}

void bind_sim_inputs(py::module_& m) {
  using T = SimTask;
  py::class_<T>(m, "SimTask", "A task of a trace; times in seconds, memory in bytes.")
      .def(py::init([](std::string name, double arrival, double duration, double estimate,
                       std::size_t memory, double compute, double bandwidth, QosClass qos,
                       int priority, std::optional<double> deadline, std::string partition,
                       std::vector<std::size_t> dependencies) {
             T task;
             task.name = std::move(name);
             task.arrival_ns = sim_ns(arrival, "SimTask: arrival");
             task.duration_ns = sim_ns(duration, "SimTask: duration");
             task.estimated_ns = sim_ns(estimate, "SimTask: estimate");
             task.memory_bytes = memory;
             task.compute = compute;
             task.bandwidth = bandwidth;
             task.qos = qos;
             task.priority = priority;
             task.deadline_ns = deadline_after(0, deadline, "SimTask: deadline");
             task.partition = std::move(partition);
             task.dependencies = std::move(dependencies);
             return task;
           }),
           py::arg("name") = "", py::kw_only(), py::arg("arrival") = 0.0, py::arg("duration") = 0.0,
           py::arg("estimate") = 0.0, py::arg("memory") = 0, py::arg("compute") = 1.0,
           py::arg("bandwidth") = 0.0, py::arg_v("qos", QosClass::kBestEffort, "..."),
           py::arg("priority") = 0, py::arg("deadline") = py::none(), py::arg("partition") = "",
           py::arg("dependencies") = std::vector<std::size_t>())
      .def_readonly("name", &T::name, "For display.")
      .def_property_readonly(
          "arrival", [](const T& t) { return seconds(t.arrival_ns); }, "When it is submitted.")
      .def_property_readonly(
          "duration", [](const T& t) { return seconds(t.duration_ns); }, "Alone on the device.")
      .def_readonly("memory", &T::memory_bytes, "Reserved while it runs.")
      .def_readonly("compute", &T::compute, "Share it uses when alone.")
      .def_readonly("bandwidth", &T::bandwidth, "Share it uses when alone.")
      .def_readonly("qos", &T::qos, "Its class.")
      .def_readonly("priority", &T::priority, "Higher is earlier.")
      .def_readonly("partition", &T::partition, "Whose memory it uses.")
      .def_readonly("dependencies", &T::dependencies, "Indices of the trace.");
  using D = SimDevice;
  py::class_<D>(m, "SimDevice", "The device of a simulation.")
      .def(py::init([](std::size_t memory, double compute, double bandwidth, std::size_t streams,
                       const std::map<std::string, std::size_t>& partitions) {
             D device;
             device.memory_bytes = memory;
             device.compute = compute;
             device.bandwidth = bandwidth;
             device.num_streams = streams;
             device.partition_limits_bytes = {partitions.begin(), partitions.end()};
             return device;
           }),
           py::arg("memory") = D().memory_bytes, py::kw_only(), py::arg("compute") = 1.0,
           py::arg("bandwidth") = 1.0, py::arg("streams") = D().num_streams,
           py::arg("partitions") = std::map<std::string, std::size_t>())
      .def_readonly("memory", &D::memory_bytes, "Bytes.")
      .def_readonly("compute", &D::compute, "Shared by all tasks.")
      .def_readonly("bandwidth", &D::bandwidth, "Shared by all tasks.")
      .def_readonly("streams", &D::num_streams, "Concurrent tasks.");
}

void bind_sim_outputs(py::module_& m) {
  using R = SimTaskResult;
  py::class_<R>(m, "SimTaskResult", "The outcome of a task; times in seconds.")
      .def_readonly("rejected", &R::rejected, "Rejected by admission.")
      .def_property_readonly(
          "state", [](const R& r) { return std::string(to_string(r.state)); }, "\"completed\", ...")
      .def_readonly("reason", &R::reason, "Why it did not complete.")
      .def_property_readonly(
          "started", [](const R& r) { return sim_time(r.started_ns); }, "Or None.")
      .def_property_readonly(
          "ended", [](const R& r) { return sim_time(r.ended_ns); }, "Or None.")
      .def_property_readonly(
          "wait", [](const R& r) { return seconds(r.wait_ns); }, "From arrival to start.")
      .def_readonly("stream", &R::stream, "Stream index, or -1.");
  using S = SimSample;
  py::class_<S>(m, "SimSample", "The state of the device until the next sample.")
      .def_property_readonly(
          "time", [](const S& s) { return seconds(s.time_ns); }, "Seconds.")
      .def_readonly("running", &S::num_running, "Tasks.")
      .def_readonly("waiting", &S::num_waiting, "Tasks.")
      .def_readonly("reserved_memory", &S::reserved_memory_bytes, "Bytes.")
      .def_readonly("compute", &S::compute, "In use.")
      .def_readonly("bandwidth", &S::bandwidth, "In use.");
  using W = WaitSummary;
  py::class_<W>(m, "WaitSummary", "Waiting times of tasks that started, in seconds.")
      .def_readonly("count", &W::count, "Tasks.")
      .def_property_readonly(
          "mean", [](const W& w) { return w.mean_ns / 1e9; }, "Seconds.")
      .def_property_readonly(
          "p50", [](const W& w) { return seconds(w.p50_ns); }, "Seconds.")
      .def_property_readonly(
          "p99", [](const W& w) { return seconds(w.p99_ns); }, "Seconds.")
      .def_property_readonly("max", [](const W& w) { return seconds(w.max_ns); }, "Seconds.");
}

}  // namespace

void bind_runtime_simulation(py::module_& m) {
  bind_sim_inputs(m);
  bind_sim_outputs(m);
  using R = SimResult;
  py::class_<R>(m, "SimResult", "The result of a simulation.")
      .def_readonly("tasks", &R::tasks, "In trace order.")
      .def_readonly("timeline", &R::timeline, "One sample per event time.")
      .def_property_readonly(
          "makespan", [](const R& r) { return seconds(r.makespan_ns); },
          "Seconds from the first arrival to the last end.")
      .def_readonly("compute_utilisation", &R::compute_utilisation, "0..1 over the makespan.")
      .def_readonly("bandwidth_utilisation", &R::bandwidth_utilisation, "0..1 over the makespan.")
      .def_readonly("memory_utilisation", &R::memory_utilisation, "0..1 over the makespan.")
      .def_readonly("completed_count", &R::num_completed, "Tasks.")
      .def_readonly("failed_count", &R::num_failed, "Tasks.")
      .def_readonly("rejected_count", &R::num_rejected, "Tasks.")
      .def_readonly("missed_deadlines", &R::num_missed_deadlines, "Tasks.")
      .def_readonly("waits", &R::waits, "Of all tasks.")
      .def_property_readonly(
          "waits_by_class",
          [](const R& r) {
            std::map<QosClass, WaitSummary> all;
            for (std::size_t i = 0; i < r.waits_by_class.size(); ++i)
              all.emplace(static_cast<QosClass>(i), r.waits_by_class[i]);
            return all;
          },
          "By QosClass.")
      .def("text", &R::text, "A readable summary.")
      .def("__str__", &R::text);
  m.def(
      "simulate",
      [](const std::vector<SimTask>& trace, const SimDevice& device, const std::string& policy,
         std::size_t max_pending, bool best_effort) {
        runtime::SchedulerConfig config;
        config.order.policy = schedule_policy(policy);
        config.max_pending_tasks = max_pending;
        config.enable_best_effort = best_effort;
        const WithoutGil released;
        return runtime::simulate(trace, device, config);
      },
      py::arg("trace"), py::arg_v("device", SimDevice(), "..."), py::kw_only(),
      py::arg("policy") = "fifo", py::arg("max_pending_tasks") = std::size_t{1'000'000},
      py::arg("enable_best_effort") = true,
      "Runs a trace on a simulated device and clock; the same input gives the same result.");
}

}  // namespace gpk::bind
