#include "runtime/scheduler/qos_enforcement.h"

namespace gpk::runtime {

QosEnforcement enforcement(QosClass qos) noexcept {
  switch (qos) {
    case QosClass::kGuaranteed:
      return {.stream_priority = 1.0,
              .max_in_flight = 0,
              .eviction_rank = 2,
              .reservation = QosReservation::kLimit,
              .yields = false};
    case QosClass::kBurstable:
      return {.stream_priority = 0.5,
              .max_in_flight = 64,
              .eviction_rank = 1,
              .reservation = QosReservation::kRequest,
              .yields = false};
    case QosClass::kBestEffort: break;
  }
  return {.stream_priority = 0.0,
          .max_in_flight = 8,
          .eviction_rank = 0,
          .reservation = QosReservation::kNothing,
          .yields = true};
}

int stream_priority(QosClass qos, int least, int greatest) noexcept {
  const double range = static_cast<double>(least) - greatest;
  return least - static_cast<int>(range * enforcement(qos).stream_priority);
}

}  // namespace gpk::runtime
