#include "llm/slot_memory.h"

#include <algorithm>
#include <limits>

#include "base/round_up.h"

namespace gpk::llm {
namespace {

constexpr std::int64_t kAlign = 128;  // elements: vector accesses and TMA of any row count

// Steps of one layer between which a slot holds a value. Layers repeat, so the first is enough.
struct Life {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;
};

bool overlap(const Life& a, const Life& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

SlotMemory place_slots(const ModelPlan& plan, const ModelSpec& spec, const ModelConfig& config) {
  std::array<Life, kNumSlots> lives;
  const auto note = [&](Slot slot, std::size_t at) {
    Life& life = lives[static_cast<std::size_t>(slot)];
    life.first = std::min(life.first, at);
    life.last = std::max(life.last, at);
  };
  for (std::size_t i = 0; i < plan.steps.size() && plan.steps[i].layer <= 0; ++i) {
    note(plan.steps[i].in, i);
    note(plan.steps[i].out, i);
  }
  // The residual stream lives from the first step to the last.
  lives[static_cast<std::size_t>(Slot::kHidden)] = {0, std::numeric_limits<std::size_t>::max()};

  SlotMemory memory;
  std::vector<Slot> placed;
  for (int s = 1; s < kNumSlots; ++s) {
    const auto slot = static_cast<Slot>(s);
    const Life& life = lives[static_cast<std::size_t>(s)];
    if (slot == Slot::kSelected || slot == Slot::kLogits || life.first > life.last) continue;
    const std::int64_t width = round_up(slot_width(slot, spec, config), kAlign);
    std::int64_t at = 0;
    bool moved = true;
    while (moved) {  // first fit
      moved = false;
      for (const Slot other : placed) {
        const auto o = static_cast<std::size_t>(other);
        const std::int64_t end =
            memory.offset[o] + round_up(slot_width(other, spec, config), kAlign);
        if (!overlap(life, lives[o]) || at >= end || at + width <= memory.offset[o]) continue;
        at = end;
        moved = true;
      }
    }
    memory.offset[static_cast<std::size_t>(s)] = at;
    memory.width = std::max(memory.width, at + width);
    placed.push_back(slot);
  }
  return memory;
}

}  // namespace gpk::llm
