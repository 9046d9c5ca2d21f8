// What a partition hangs on its streams.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/green_context.h"
#include "core/launch_gate.h"

namespace gpk {

class PartitionCore;

struct StreamTenant {
  std::shared_ptr<PartitionCore> partition;  // keeps what the rest points to
  std::shared_ptr<GreenContext> green;
  std::unique_ptr<LaunchGate> gate;
  std::optional<std::uint64_t> bandwidth_member;  // of bandwidth_pacer()
};

}  // namespace gpk
