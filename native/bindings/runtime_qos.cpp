// Quality of service.
#include "bindings/runtime_bind.h"
#include "runtime/scheduler/qos_enforcement.h"
#include "runtime/scheduler/qos_evaluator.h"

namespace gpk::bind {
namespace {

using runtime::QosClass;
using runtime::QosEvaluation;
using runtime::QosPolicy;
using runtime::QosPolicyEvaluator;
using runtime::QosStats;
using runtime::QosTaskMeta;
using runtime::ResourceRequirements;

void bind_qos_class(py::module_& m) {
  number_enum<QosClass>(m, "QosClass", "What a class promises to a task.")
      .value("Guaranteed", QosClass::kGuaranteed)
      .value("Burstable", QosClass::kBurstable)
      .value("BestEffort", QosClass::kBestEffort)
      .def(
          "priority", [](QosClass c) { return runtime::class_priority(c); },
          "Added to a task's own priority: 100, 50, 0.")
      .def(
          "can_preempt", [](QosClass c, QosClass o) { return runtime::can_preempt(c, o); },
          py::arg("other"), "True when it is the higher class.")
      .def(
          "memory_overcommit_ratio", [](QosClass c) { return runtime::memory_overcommit_ratio(c); },
          "1.0, 1.5, 2.0.")
      .def(
          "bandwidth_ratio", [](QosClass c) { return runtime::bandwidth_ratio(c); },
          "1.0, 0.8, 0.5.");
}

void bind_requirements(py::module_& m) {
  using R = ResourceRequirements;
  const auto memory = py::arg("memory");
  const auto request = py::arg("request");
  const auto ratio = py::arg("ratio");
  py::class_<R>(m, "ResourceRequirements", "What a task needs and what it may grow to.")
      .def(py::init<std::size_t, std::optional<std::size_t>, double, double>(),
           py::arg("memory_request"), py::arg("memory_limit") = py::none(),
           py::arg("bandwidth_request") = 0.0, py::arg("bandwidth_limit") = 1.0)
      .def_static("guaranteed", &R::guaranteed, memory, "Limit and request are the same.")
      .def_static("burstable", &R::burstable, request, ratio, "The limit is request * ratio.")
      .def_static("best_effort", &R::best_effort, "Nothing is asked for.")
      .def_readonly("memory_request", &R::memory_request_bytes, "Bytes.")
      .def_readonly("memory_limit", &R::memory_limit_bytes, "Bytes.")
      .def_readonly("bandwidth_request", &R::bandwidth_request, "Share of the device.")
      .def_readonly("bandwidth_limit", &R::bandwidth_limit, "Share of the device.");
  using P = QosPolicy;
  py::class_<P>(m, "QosPolicy", "A class with its requirements.")
      .def_static("guaranteed", &P::guaranteed, memory, "Reserves its limit.")
      .def_static("burstable", &P::burstable, request, ratio, "Reserves its request.")
      .def_static("best_effort", &P::best_effort, "Reserves nothing.")
      .def_readonly("qos_class", &P::qos_class, "The class.")
      .def_readonly("requirements", &P::requirements, "What it asks for.")
      .def("memory_to_reserve", &P::memory_to_reserve_bytes, "Bytes.")
      .def("bandwidth_to_reserve", &P::bandwidth_to_reserve, "Share of the device.");
}

void bind_qos_task(py::module_& m) {
  using T = QosTaskMeta;
  const auto id = py::arg("id");
  const auto name = py::arg("name");
  py::class_<T>(m, "QosTaskMeta", "A task as QoS sees it.")
      .def_static("guaranteed", &T::guaranteed, id, name, py::arg("memory"), "A guaranteed task.")
      .def_static("burstable", &T::burstable, id, name, py::arg("request"), py::arg("burst_ratio"),
                  "A burstable task.")
      .def_static("best_effort", &T::best_effort, id, name, "A best-effort task.")
      .def_readonly("id", &T::id, "The caller's id.")
      .def_readonly("name", &T::name, "For people.")
      .def_property_readonly("qos_class", &T::qos_class, "The class.")
      .def_property_readonly(
          "policy", [](const T& t) { return t.policy; }, "The class with its requirements.")
      .def_property_readonly(
          "memory_request", [](const T& t) { return t.policy.requirements.memory_request_bytes; },
          "Bytes.")
      .def_property_readonly(
          "memory_limit", [](const T& t) { return t.policy.requirements.memory_limit_bytes; },
          "Bytes.")
      .def_readonly("burst_ratio", &T::burst_ratio, "Limit over request.")
      .def_property(
          "bandwidth_request", [](const T& t) { return t.policy.requirements.bandwidth_request; },
          [](T& t, double share) {
            auto& r = t.policy.requirements;
            r = ResourceRequirements(r.memory_request_bytes, r.memory_limit_bytes, share,
                                     std::max(r.bandwidth_limit, share));
          },
          "Share of the device.")
      .def_readwrite("priority", &T::priority, "Its own, without the class's.")
      .def("effective_priority", &T::effective_priority, "Its own and the class's.");
}

void bind_evaluation(py::module_& m) {
  using E = QosEvaluation;
  py::class_<E>(m, "QosEvaluation", "What was decided for a task, and why.")
      .def("is_admitted", &E::is_admitted, "It may run as promised.")
      .def("is_throttled", &E::is_throttled, "It may run, but not grow to its limit.")
      .def("is_queued", &E::is_queued, "It waits.")
      .def("is_rejected", &E::is_rejected, "It was turned away.")
      .def_property_readonly(
          "decision_type", [](const E& e) { return std::string(to_string(e.decision)); },
          "\"Admit\", \"Throttle\", \"Queue\" or \"Reject\".")
      .def_readonly("qos_class", &E::qos_class, "The class.")
      .def_readonly("reserved_memory", &E::reserved_memory_bytes, "Bytes.")
      .def_readonly("reserved_bandwidth", &E::reserved_bandwidth, "Share of the device.")
      .def_property_readonly(
          "reject_reason",
          [](const E& e) { return e.is_rejected() ? std::optional(e.reason) : std::nullopt; },
          "Why it was turned away, or None.")
      .def_readonly("reason", &E::reason, "Why, for every decision.")
      .def("text", &E::text, "One sentence.")
      .def("__str__", &E::text)
      .def("__repr__", [](const E& e) { return "QosEvaluation(" + e.text() + ")"; });
  using S = QosStats;
  py::class_<S>(m, "QosStats", "What is reserved now; memory in bytes.")
      .def_readonly("total_memory", &S::total_memory_bytes, "Of the device.")
      .def_readonly("total_bandwidth", &S::total_bandwidth, "Of the device.")
      .def_readonly("guaranteed_memory", &S::guaranteed_memory_bytes, "Held by guaranteed tasks.")
      .def_readonly("guaranteed_bandwidth", &S::guaranteed_bandwidth, "Held by guaranteed tasks.")
      .def_readonly("burstable_memory", &S::burstable_memory_bytes, "Held by burstable tasks.")
      .def_readonly("best_effort_queue", &S::best_effort_queue, "Best-effort tasks that wait.")
      .def_readonly("available_memory", &S::available_memory_bytes, "Left.")
      .def_readonly("available_bandwidth", &S::available_bandwidth, "Left.");
}

}  // namespace

void bind_runtime_qos(py::module_& m) {
  bind_qos_class(m);
  bind_requirements(m);
  bind_qos_task(m);
  bind_evaluation(m);
  using V = QosPolicyEvaluator;
  py::class_<V>(m, "QosPolicyEvaluator", "Decides by class and keeps the reservations.")
      .def(py::init<std::size_t, double>(), py::arg("total_memory"),
           py::arg("total_bandwidth") = 1.0)
      .def("evaluate", &V::evaluate, py::arg("task"), Unlocked(), "Decides; reserves nothing.")
      .def("reserve", &V::reserve, py::arg("evaluation"), Unlocked(),
           "Makes the reservation of an evaluation.")
      .def("admit", &V::admit, py::arg("task"), Unlocked(), "evaluate and reserve in one step.")
      .def("release", py::overload_cast<QosClass, std::size_t, double>(&V::release),
           py::arg("qos_class"), py::arg("memory"), py::arg("bandwidth") = 0.0, Unlocked(),
           "Gives back.")
      .def("release_evaluation", py::overload_cast<const QosEvaluation&>(&V::release),
           py::arg("evaluation"), Unlocked(), "Gives back exactly what an evaluation reserved.")
      .def("stats", &V::stats, Unlocked(), "The figures now.")
      .def("reset", &V::reset, Unlocked(), "Forgets all reservations.");
}

}  // namespace gpk::bind
