// What a class, a partition or a launch limit attaches to a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/gated_work.h"
#include "core/green_context.h"

namespace gpk::inline core {

struct StreamTenant {
  // Keeps alive what the rest points to: a partition, or state shared by classes.
  std::shared_ptr<void> owner;
  std::shared_ptr<GreenContext> green;
  std::unique_ptr<SubmissionGate> gate;
  std::optional<std::uint64_t> bandwidth_member;  // id in bandwidth_pacer()
};

}  // namespace gpk::inline core
