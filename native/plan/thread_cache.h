// A small direct-mapped table, one per thread: no lock, and no allocation on a hit.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace gpk::plan {

// Key: copyable, ==, and `unsigned hash() const`. Keys that collide evict each other.
template <class Key, class Value, unsigned kNumSlots = 64>
class ThreadCache {
 public:
  // nullptr: a miss. Valid until the next put() or clear().
  [[nodiscard]] Value* find(const Key& key) noexcept {
    if (!slots_) [[unlikely]]
      return nullptr;
    Slot& slot = slots_[key.hash() % kNumSlots];
    return slot.used && slot.key == key ? &slot.value : nullptr;
  }

  Value& put(const Key& key, Value value) {
    if (!slots_) slots_ = std::make_unique<Slot[]>(kNumSlots);
    Slot& slot = slots_[key.hash() % kNumSlots];
    slot.key = key;
    slot.value = std::move(value);
    slot.used = true;
    return slot.value;
  }

  void clear() noexcept { slots_.reset(); }

 private:
  struct Slot {
    bool used = false;
    Key key;
    Value value;
  };
  std::unique_ptr<Slot[]> slots_;
};

// Mixes one more word into a hash; the upper bits are the well-mixed ones.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) noexcept {
  return (hash ^ word) * 0x9e3779b97f4a7c15u;
}

}  // namespace gpk::plan
