// What a class or a partition adds to its streams.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/green_context.h"
#include "core/launch_gate.h"
#include "runtime/scheduler/qos.h"

namespace gpk {

class DeviceSharing;
class PartitionCore;

struct StreamTenant {
  runtime::QosClass qos = runtime::QosClass::kBurstable;
  std::shared_ptr<DeviceSharing> sharing;    // whose foreground the gate knows
  std::shared_ptr<PartitionCore> partition;  // null: of a class only
  std::shared_ptr<GreenContext> green;
  std::unique_ptr<LaunchGate> gate;
  std::optional<std::uint64_t> bandwidth_member;  // of bandwidth_pacer()
};

}  // namespace gpk
