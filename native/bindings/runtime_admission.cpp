// Admission control.
#include "bindings/runtime_bind.h"
#include "runtime/scheduler/admission.h"

namespace gpk::bind {
namespace {

using runtime::AdmissionConfig;
using runtime::AdmissionController;
using runtime::AdmissionDecision;
using runtime::AdmissionStats;
using runtime::RejectReason;
using runtime::RejectReasonDetails;

void bind_reject_reason(py::module_& m) {
  number_enum<RejectReason>(m, "RejectReason", "Why a task was turned away.")
      .value("InsufficientMemory", RejectReason::kInsufficientMemory)
      .value("InsufficientBandwidth", RejectReason::kInsufficientBandwidth)
      .value("QueueFull", RejectReason::kQueueFull)
      .value("UnsatisfiableDependencies", RejectReason::kUnsatisfiableDependencies)
      .value("Custom", RejectReason::kCustom);
  using D = RejectReasonDetails;
  py::class_<D>(m, "RejectReasonDetails", "Why a task was not admitted, with the numbers.")
      .def_readonly("reason_type", &D::reason_type, "The kind.")
      .def_readonly("requested_memory", &D::requested_memory_bytes, "Bytes asked for.")
      .def_readonly("available_memory", &D::available_memory_bytes, "Bytes that were left.")
      .def_property_readonly(
          "requested_bandwidth",
          [](const D& d) { return runtime::share_of_ppb(d.requested_bandwidth_ppb); },
          "Share asked for.")
      .def_property_readonly(
          "available_bandwidth",
          [](const D& d) { return runtime::share_of_ppb(d.available_bandwidth_ppb); },
          "Share that was left.")
      .def_readonly("pending_count", &D::num_pending, "Tasks admitted or queued.")
      .def_readonly("max_pending", &D::max_pending, "How many there may be.")
      .def("message", &D::message, "One sentence.")
      .def("__str__", &D::message)
      .def("__repr__", [](const D& d) { return "RejectReasonDetails(" + d.message() + ")"; });
}

void bind_decision(py::module_& m) {
  using D = AdmissionDecision;
  py::class_<D>(m, "AdmissionDecision", "What admission control said, and why.")
      .def_static(
          "Admitted", [] { return D::admitted(); }, "An admission.")
      .def_static(
          "Queued", [] { return D::queued(); }, "A place in the queue.")
      .def("is_admitted", &D::is_admitted, "It may run.")
      .def("is_rejected", &D::is_rejected, "It was turned away.")
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
                    "The estimate is by measured completions.")
      .def_readonly("rejection_reason", &D::details, "Why it was not admitted, or None.")
      .def("text", &D::text, "One sentence: what was decided and why.")
      .def("__str__", &D::text)
      .def("__repr__", [](const D& d) { return "AdmissionDecision(" + d.text() + ")"; });
}

void bind_admission_stats(py::module_& m) {
  using S = AdmissionStats;
  const auto memory = &S::reserved_memory_bytes;
  const auto bandwidth = &S::reserved_bandwidth;
  py::class_<S>(m, "AdmissionStats", "Decisions so far and what is reserved now.")
      .def_readonly("admitted_count", &S::admitted_count, "Admissions so far.")
      .def_readonly("rejected_count", &S::rejected_count, "Rejections so far.")
      .def_readonly("queued_count", &S::queued_count, "Tasks ever queued.")
      .def_readonly("pending_count", &S::pending_count, "Tasks admitted or queued now.")
      .def_readonly("reserved_memory", memory, "Bytes.")
      .def_readonly("used_memory", memory, "The same as reserved_memory.")
      .def_readonly("reserved_bandwidth", bandwidth, "Share of the device.")
      .def_readonly("used_bandwidth", bandwidth, "The same as reserved_bandwidth.")
      .def_readonly("available_memory", &S::available_memory_bytes, "Bytes.")
      .def_readonly("available_bandwidth", &S::available_bandwidth, "Share of the device.");
}

}  // namespace

void bind_runtime_admission(py::module_& m) {
  bind_reject_reason(m);
  bind_decision(m);
  bind_admission_stats(m);
  using C = AdmissionConfig;
  py::class_<C>(m, "AdmissionConfig", "Limits of an AdmissionController.")
      .def(py::init<std::size_t, double, std::size_t, bool>(), py::arg("max_memory"),
           py::arg("max_bandwidth") = 1.0, py::arg("max_pending_tasks") = 1000,
           py::arg("enable_best_effort") = true)
      .def_readonly("max_memory", &C::max_memory_bytes, "Bytes.")
      .def_property_readonly(
          "max_bandwidth", [](const C& c) { return runtime::share_of_ppb(c.max_bandwidth_ppb); },
          "Share of the device.")
      .def_readonly("max_pending_tasks", &C::max_pending_tasks, "Tasks admitted or queued.")
      .def_readonly("enable_best_effort", &C::enable_best_effort,
                    "What does not fit now is queued, not rejected.");
  using A = AdmissionController;
  py::class_<A>(m, "AdmissionController", "Decides who may take memory and bandwidth.")
      .def(py::init([](const C& config) { return std::make_unique<A>(config); }), py::arg("config"))
      .def("try_admit", &A::try_admit, py::arg("task_id"), py::arg("memory"),
           py::arg("bandwidth") = 0.0, Unlocked(),
           "Decides and reserves. A bandwidth of 0 is estimated from the memory.")
      .def("evaluate", &A::evaluate, py::arg("memory"), py::arg("bandwidth") = 0.0, Unlocked(),
           "What try_admit would say to a new task.")
      .def("release", &A::release, py::arg("task_id"), Unlocked(),
           "Gives back exactly what the task's admission reserved, or its place in the queue.")
      .def("promote", &A::promote, Unlocked(), "Tries queued tasks again; who was admitted.")
      .def("queued_ids", &A::queued_ids, Unlocked(), "Who waits, in order.")
      .def("stats", &A::stats, Unlocked(), "The figures now.")
      .def_property_readonly("config", &A::config, "The limits.");
}

}  // namespace gpk::bind
