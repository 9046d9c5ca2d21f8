// What a class, a partition or a limit of launches adds to a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/gated_work.h"
#include "core/green_context.h"

namespace gpk::inline core {

struct StreamTenant {
  std::shared_ptr<void> owner;  // keeps what the rest points to: a partition, or what classes share
  std::shared_ptr<GreenContext> green;
  std::unique_ptr<SubmissionGate> gate;
  std::optional<std::uint64_t> bandwidth_member;  // of bandwidth_pacer()
};

}  // namespace gpk::inline core
