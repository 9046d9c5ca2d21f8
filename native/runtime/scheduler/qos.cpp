#include "runtime/scheduler/qos.h"

namespace gpk::runtime {

const char* to_string(QosClass qos) noexcept {
  switch (qos) {
    case QosClass::kGuaranteed: return "Guaranteed";
    case QosClass::kBurstable: return "Burstable";
    case QosClass::kBestEffort: return "BestEffort";
  }
  return "?";
}

int class_priority(QosClass qos) noexcept {
  switch (qos) {
    case QosClass::kGuaranteed: return 100;
    case QosClass::kBurstable: return 50;
    case QosClass::kBestEffort: return 0;
  }
  return 0;
}

}  // namespace gpk::runtime
