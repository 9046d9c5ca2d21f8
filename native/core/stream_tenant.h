// What a partition hangs on its streams.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/gated_work.h"
#include "core/green_context.h"

namespace gpk {

struct StreamTenant {
  std::shared_ptr<void> partition;  // keeps what the rest points to
  std::shared_ptr<GreenContext> green;
  std::unique_ptr<SubmissionGate> gate;
  std::optional<std::uint64_t> bandwidth_member;  // of bandwidth_pacer()
};

}  // namespace gpk
