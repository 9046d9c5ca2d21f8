// Where the slots of a plan are: one block of memory, reused as soon as a slot's last reader is
// done. Pure.
#pragma once

#include <array>

#include "llm/model_plan.h"

namespace gpk::llm {

struct SlotMemory {
  std::array<std::int64_t, kNumSlots> offset{};  // in elements per row
  std::int64_t width = 0;                        // elements per row, of all slots together
};

// Of all slots with a row per token; kSelected and kLogits, which have others, are left out.
SlotMemory place_slots(const ModelPlan& plan, const ModelSpec& spec, const ModelConfig& config);

}  // namespace gpk::llm
