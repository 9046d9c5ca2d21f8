// Quality of service: the classes and their rank. Their effect on the device is in
// qos_enforcement.h.
#pragma once

#include <cstdint>

namespace gpk::runtime {

enum class QosClass : std::uint8_t { kGuaranteed = 0, kBurstable = 1, kBestEffort = 2 };

[[nodiscard]] const char* to_string(QosClass qos) noexcept;  // "Guaranteed", ...
// Added to a task's own priority: 100, 50, 0.
[[nodiscard]] int class_priority(QosClass qos) noexcept;

}  // namespace gpk::runtime
