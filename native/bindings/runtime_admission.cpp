// Admission control: the rule and its decision.
#include <algorithm>

#include "bindings/runtime_bind.h"
#include "runtime/scheduler/admission_decision.h"

namespace gpk::bind {
namespace {

using runtime::AdmissionDecision;
using runtime::RejectReason;
using runtime::RejectReasonDetails;

void bind_reject_reason(py::module_& m) {
  number_enum<RejectReason>(m, "RejectReason", "Why a task was rejected.")
      .value("InsufficientMemory", RejectReason::kInsufficientMemory)
      .value("InsufficientBandwidth", RejectReason::kInsufficientBandwidth)
      .value("QueueFull", RejectReason::kQueueFull)
      .value("UnsatisfiableDependencies", RejectReason::kUnsatisfiableDependencies)
      .value("Custom", RejectReason::kCustom);
  using D = RejectReasonDetails;
  py::class_<D>(m, "RejectReasonDetails", "Why a task was not admitted, with the numbers.")
      .def_readonly("reason_type", &D::reason_type, "The kind.")
      .def_readonly("requested_memory", &D::requested_memory_bytes, "Bytes requested.")
      .def_readonly("available_memory", &D::available_memory_bytes, "Bytes available.")
      .def_property_readonly(
          "requested_bandwidth",
          [](const D& d) { return runtime::share_of_ppb(d.requested_bandwidth_ppb); },
          "Share requested.")
      .def_property_readonly(
          "available_bandwidth",
          [](const D& d) { return runtime::share_of_ppb(d.available_bandwidth_ppb); },
          "Share available.")
      .def_readonly("pending_count", &D::num_pending, "Tasks admitted or queued.")
      .def_readonly("max_pending", &D::max_pending, "The limit.")
      .def("message", &D::message, "One sentence.")
      .def("__str__", &D::message)
      .def("__repr__", [](const D& d) { return "RejectReasonDetails(" + d.message() + ")"; });
}

void bind_decision(py::module_& m) {
  using D = AdmissionDecision;
  py::class_<D>(m, "AdmissionDecision", "The decision of admission control, and its reason.")
      .def_static(
          "Admitted", [] { return D::admitted(); }, "An admission.")
      .def_static(
          "Queued", [] { return D::queued(); }, "A queued decision.")
      .def("is_admitted", &D::is_admitted, "It may run.")
      .def("is_rejected", &D::is_rejected, "It was rejected.")
      .def("is_queued", &D::is_queued, "It waits.")
      .def("reject_reason", &D::reject_reason, "The kind of reason when rejected, else None.")
      .def_property_readonly(
          "decision_type", [](const D& d) { return std::string(to_string(d.verdict)); },
          "\"Admit\", \"Reject\" or \"Queue\".")
      .def_readonly("reserved_memory", &D::reserved_memory_bytes, "Bytes.")
      .def_property_readonly("reserved_bandwidth", &D::reserved_bandwidth, "Share of the device.")
      .def_readonly("queue_position", &D::queue_position, "Tasks ahead.")
      .def_property_readonly("estimated_wait_ms", &D::estimated_wait_ms, "Until its turn.")
      .def_readonly("wait_is_measured", &D::wait_is_measured,
                    "The estimate is based on measured completions.")
      .def_readonly("rejection_reason", &D::details, "Why it was not admitted, or None.")
      .def("text", &D::text, "One sentence: the decision and its reason.")
      .def("__str__", &D::text)
      .def("__repr__", [](const D& d) { return "AdmissionDecision(" + d.text() + ")"; });
}

}  // namespace

void bind_runtime_admission(py::module_& m) {
  bind_reject_reason(m);
  bind_decision(m);
  m.def(
      "decide_admission",
      [](std::size_t memory, double bandwidth, std::size_t max_memory, double max_bandwidth,
         std::size_t max_pending, bool best_effort, std::size_t reserved_memory,
         double reserved_bandwidth, std::size_t pending) {
        const runtime::AdmissionConfig config(max_memory, max_bandwidth, max_pending, best_effort);
        runtime::AdmissionUsage usage;
        usage.reserved_memory_bytes = reserved_memory;
        usage.available_memory_bytes = max_memory - std::min(max_memory, reserved_memory);
        usage.available_bandwidth_ppb =
            config.max_bandwidth_ppb -
            runtime::share_ppb(reserved_bandwidth, "decide_admission: reserved_bandwidth");
        usage.num_pending = pending;
        const auto share = runtime::share_ppb(bandwidth, "decide_admission: bandwidth");
        return decide_admission(config, usage,
                                runtime::admission_request(memory, share, max_memory));
      },
      py::arg("memory"), py::arg("bandwidth"), py::kw_only(), py::arg("max_memory"),
      py::arg("max_bandwidth"), py::arg("max_pending_tasks"), py::arg("enable_best_effort"),
      py::arg("reserved_memory"), py::arg("reserved_bandwidth"), py::arg("pending_count"),
      "The scheduler's rule for a task with these figures. Bandwidth 0: memory / max_memory.");
}

}  // namespace gpk::bind
