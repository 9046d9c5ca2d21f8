#include "llm/weight_staging.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/per_process.h"
#include "core/interrupt.h"

namespace gpk::llm {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<DeviceKind, int>, std::unique_ptr<WeightStaging>> by_device;
};

}  // namespace

WeightStaging& WeightStaging::of(Device device) {
  auto& all = per_process<Registry>();
  const std::lock_guard lock(all.mutex);
  auto& staging = all.by_device[{device.kind, device.index}];
  if (!staging) staging = std::make_unique<WeightStaging>();
  return *staging;
}

std::vector<StagingSlot> WeightStaging::take(std::size_t max_slots) {
  std::vector<StagingSlot> slots;
  slots.reserve(max_slots);
  std::unique_lock lock(mutex_);
  free_.reserve(kMaxStagingSlots);  // give_back() does not allocate
  wait_interruptibly(freed_, lock, [this] { return num_new_ + free_.size() > 0; });
  while (slots.size() < max_slots && !free_.empty()) {
    slots.push_back(std::move(free_.back()));
    free_.pop_back();
  }
  const std::size_t num_new = std::min(num_new_, max_slots - slots.size());
  num_new_ -= num_new;
  slots.resize(slots.size() + num_new);
  return slots;
}

void WeightStaging::give_back(std::vector<StagingSlot> slots) noexcept {
  const std::lock_guard lock(mutex_);
  std::move(slots.begin(), slots.end(), std::back_inserter(free_));
  freed_.notify_all();
}

void WeightStaging::trim() noexcept {
  const std::lock_guard lock(mutex_);
  for (StagingSlot& slot : free_) slot.memory.reset();
}

}  // namespace gpk::llm
