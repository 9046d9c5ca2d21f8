// Partitions of a device.
#include <chrono>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/interrupt.h"
#include "device/device_partition.h"

namespace gpk::bind {
namespace {

// Ctrl-C during our waits. Polled rarely: it takes the GIL.
void check_signals() {
  constexpr auto kInterval = std::chrono::milliseconds(2);
  if (!on_main_thread()) return;
  thread_local std::chrono::steady_clock::time_point last;
  const auto now = std::chrono::steady_clock::now();
  if (now - last < kInterval || !python_runs()) return;
  last = now;
  const WithGil gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

runtime::QosClass qos_from_python(const std::string& text) {
  if (text == "guaranteed") return runtime::QosClass::kGuaranteed;
  if (text == "burstable") return runtime::QosClass::kBurstable;
  if (text == "best_effort") return runtime::QosClass::kBestEffort;
  throw InvalidArgument(
      cat("partition: qos is '", text, "', expected 'guaranteed', 'burstable' or 'best_effort'"));
}

const char* name_of(runtime::QosClass qos) {
  switch (qos) {
    case runtime::QosClass::kGuaranteed: return "guaranteed";
    case runtime::QosClass::kBurstable: return "burstable";
    case runtime::QosClass::kBestEffort: break;
  }
  return "best_effort";
}

const char* name_of(device::ComputeLimit limit) {
  switch (limit) {
    case device::ComputeLimit::kNone: return "none";
    case device::ComputeLimit::kGreenContext: return "green context";
    case device::ComputeLimit::kPacing: return "pacing";
    case device::ComputeLimit::kSimulated: break;
  }
  return "simulated";
}

std::shared_ptr<device::DevicePartition> make(const std::string& name, double compute,
                                              std::size_t memory, double bandwidth,
                                              std::size_t max_streams, const std::string& qos,
                                              py::handle device) {
  device::PartitionRequest request;
  request.name = name;
  request.compute = compute;
  request.memory_bytes = memory;
  request.bandwidth = bandwidth;
  request.max_streams = max_streams;
  request.qos = qos_from_python(qos);
  const Device where = device_from_python(device, "partition");
  const WithoutGil released;
  return device::DevicePartition::create(where, request);
}

// The scopes this thread has entered, innermost last. Per thread, like the current stream.
std::vector<std::unique_ptr<device::PartitionScope>>& entered() {
  thread_local std::vector<std::unique_ptr<device::PartitionScope>> stack;
  return stack;
}

void enter(const std::shared_ptr<device::DevicePartition>& partition) {
  const WithoutGil released;
  entered().push_back(std::make_unique<device::PartitionScope>(partition));
}

void leave(const std::shared_ptr<device::DevicePartition>& partition) {
  auto& stack = entered();
  if (stack.empty() || stack.back()->partition() != partition)
    throw Error("partition: __exit__ without __enter__ on this thread");
  const WithoutGil released;
  stack.pop_back();
}

py::dict report(device::DevicePartition& partition, bool divide) {
  device::PartitionReport r;
  {
    const WithoutGil released;
    r = partition.report(divide);
  }
  py::dict d;
  d["name"] = r.asked.name;
  d["device"] = to_string(partition.device());
  d["qos"] = name_of(r.asked.qos);
  d["compute_asked"] = r.asked.compute;
  d["compute_given"] = r.given_compute;
  d["compute_how"] = name_of(r.compute);
  d["compute_note"] = r.compute_note;
  d["given_sms"] = r.given_sms;
  d["total_sms"] = r.total_sms;
  d["granule_sms"] = r.granule_sms;
  d["memory_limit"] = r.asked.memory_bytes;
  d["memory_used"] = r.memory.used_bytes;
  d["memory_peak"] = r.memory.peak_bytes;
  d["memory_refused"] = r.memory.num_refused;
  d["bandwidth_asked"] = r.asked.bandwidth;
  d["bandwidth_bytes"] = r.bandwidth_bytes;
  d["max_streams"] = r.asked.max_streams;
  d["open_streams"] = r.open_streams;
  d["stream_priority"] = r.stream_priority;
  d["eviction_rank"] = r.eviction_rank;
  d["launches"] = r.gate.num_passed;
  d["launches_held"] = r.gate.num_held;
  d["held_s"] = static_cast<double>(r.gate.held_ns) * 1e-9;
  d["window_limit"] = r.gate.window.limit;
  d["window_waits"] = r.gate.window.num_waits;
  d["window_wait_s"] = static_cast<double>(r.gate.window.wait_ns) * 1e-9;
  d["paced_s"] = r.paced_ns * 1e-9;
  return d;
}

}  // namespace

void bind_partition(py::module_& m) {
  set_interrupt_hook(check_signals);
  py::class_<device::DevicePartition, std::shared_ptr<device::DevicePartition>>(
      m, "DevicePartition", "An enforced partition of a device; see pygpukit.scheduler.")
      .def(py::init(&make), py::arg("name"), py::kw_only(), py::arg("compute") = 0.0,
           py::arg("memory") = 0, py::arg("bandwidth") = 0.0, py::arg("max_streams") = 16,
           py::arg("qos") = "burstable", py::arg("device") = py::none())
      .def_property_readonly("name", &device::DevicePartition::name)
      .def_property_readonly("device",
                             [](const device::DevicePartition& p) { return to_string(p.device()); })
      .def_property_readonly("qos",
                             [](const device::DevicePartition& p) { return name_of(p.qos()); })
      .def_property_readonly("closed", &device::DevicePartition::closed)
      .def("enter", enter, "Makes a stream of the partition current for the calling thread.")
      .def("leave", leave, "Restores the stream that was current before enter().")
      .def("report", report, py::arg("divide") = true, "What was requested, granted and used.")
      .def("close", &device::DevicePartition::close, py::call_guard<WithoutGil>(),
           "Waits for its work and releases everything.");
}

}  // namespace gpk::bind
