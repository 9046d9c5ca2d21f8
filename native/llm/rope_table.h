// Cosines and sines of rotary positions on a device.
#pragma once

#include <optional>

#include "core/array.h"
#include "llm/model_config.h"

namespace gpk::llm {

struct RopeTable {
  Array cos, sin;  // float32 [positions, pairs]
};

// For positions 0 to `positions` - 1. Angles are products in float32, as Transformers computes
// them.
RopeTable make_rope_table(const RopeConfig& rope, std::int64_t positions, Device device);

}  // namespace gpk::llm
