#include "sim/driver/pool_arrays.h"

#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"

namespace gpk::sim::driver {

class PoolArrays::Bounded final : public GlobalMemory {
 public:
  Bounded(std::shared_ptr<const GlobalMemory> memory, std::shared_ptr<const Arrays> arrays)
      : memory_(std::move(memory)), arrays_(std::move(arrays)) {}

  std::optional<Allocation> find(std::uint64_t address) const override {
    std::optional<Allocation> found = memory_->find(address);
    const auto array = found ? array_of(address) : arrays_->end();
    if (array == arrays_->end()) return found;
    if (address - array->first >= array->second.bytes) return std::nullopt;
    return named(*array);
  }
  std::optional<Allocation> nearest(std::uint64_t address) const override {
    const auto array = array_of(address);
    return array == arrays_->end() ? memory_->nearest(address) : named(*array);
  }
  const Fresh* fresh(std::uint64_t address) const override { return memory_->fresh(address); }

 private:
  // The one whose block holds the address.
  [[nodiscard]] Arrays::const_iterator array_of(std::uint64_t address) const {
    const auto after = arrays_->upper_bound(address);
    if (after == arrays_->begin()) return arrays_->end();
    const auto before = std::prev(after);
    return address - before->first < before->second.room ? before : arrays_->end();
  }
  static Allocation named(const Arrays::value_type& array) {
    const auto [bytes, room] = array.second;
    return {array.first, bytes, cat("an array of ", bytes, " bytes"), room - bytes};
  }

  std::shared_ptr<const GlobalMemory> memory_;
  std::shared_ptr<const Arrays> arrays_;
};

void PoolArrays::add(std::uint64_t base, Extent extent) {
  const std::lock_guard lock(mutex_);
  auto first = arrays_.lower_bound(base);
  if (first != arrays_.begin()) {
    const auto before = std::prev(first);
    if (base - before->first < before->second.room) first = before;
  }
  arrays_.erase(first, arrays_.lower_bound(base + extent.room));
  if (extent.bytes > 0) arrays_[base] = extent;
  shared_.reset();
}

void PoolArrays::forget(std::uint64_t base, std::size_t room) { add(base, {0, room}); }

std::shared_ptr<const GlobalMemory> PoolArrays::bounded(
    std::shared_ptr<const GlobalMemory> memory) {
  const std::lock_guard lock(mutex_);
  if (arrays_.empty()) return memory;
  if (!shared_) shared_ = std::make_shared<const Arrays>(arrays_);
  return std::make_shared<const Bounded>(std::move(memory), shared_);
}

}  // namespace gpk::sim::driver
