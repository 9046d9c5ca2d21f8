// QoS classes.
#include "bindings/runtime_bind.h"
#include "runtime/scheduler/qos.h"

namespace gpk::bind {

void bind_runtime_qos(py::module_& m) {
  using runtime::class_priority;
  using runtime::QosClass;
  number_enum<QosClass>(m, "QosClass", "The guarantees a task gets.")
      .value("Guaranteed", QosClass::kGuaranteed)
      .value("Burstable", QosClass::kBurstable)
      .value("BestEffort", QosClass::kBestEffort)
      .def(
          "priority", [](QosClass c) { return class_priority(c); },
          "Added to a task's own priority: 100, 50, 0.")
      .def(
          "can_preempt",
          [](QosClass c, QosClass other) { return class_priority(c) > class_priority(other); },
          py::arg("other"), "True when it is the higher class.")
      .def(
          "memory_overcommit_ratio", [](QosClass c) { return 1.0 + 0.5 * static_cast<int>(c); },
          "1.0, 1.5, 2.0; kept for 0.2, unused here.")
      .def(
          "bandwidth_ratio",
          [](QosClass c) {
            constexpr double kRatios[] = {1.0, 0.8, 0.5};
            return kRatios[static_cast<int>(c)];
          },
          "1.0, 0.8, 0.5; kept for 0.2, unused here.");
}

}  // namespace gpk::bind
