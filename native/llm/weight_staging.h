// The pinned buffers that weights pass through on their way to a device: a bounded number, shared
// by all loads and kept, since pinning memory takes longer than filling it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device.h"
#include "core/memory.h"

namespace gpk::llm {

inline constexpr std::size_t kStagingSlotBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMaxStagingSlots = 32;  // 128 MiB per device

// Memory is allocated by whoever fills a slot first.
struct StagingSlot {
  std::shared_ptr<PinnedMemory> memory;
};

// Of one device. Thread safe.
class WeightStaging {
 public:
  // Lives as long as the process; a forked child has its own.
  static WeightStaging& of(Device device);

  // From 1 to `max_slots` of those that nobody has; waits while there is none. Throws what
  // interrupts the wait.
  std::vector<StagingSlot> take(std::size_t max_slots);
  void give_back(std::vector<StagingSlot> slots) noexcept;
  // Frees the memory of slots that nobody has.
  void trim() noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::size_t num_new_ = kMaxStagingSlots;  // never handed out
  std::vector<StagingSlot> free_;
};

}  // namespace gpk::llm
