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

// LongRoPE has frequencies for texts of up to so many tokens, and others for longer ones; 0: there
// is no such border below `max_length`. Throws InvalidArgument for a scaling whose frequencies grow
// with each text (dynamic) beyond the trained length.
std::int64_t rope_border(const RopeConfig& rope, std::int64_t max_length);

// Of texts of up to `border` tokens, and from row `positions` on of longer ones.
RopeTable make_rope_tables(const RopeConfig& rope, std::int64_t border, std::int64_t positions,
                           Device device);

}  // namespace gpk::llm
