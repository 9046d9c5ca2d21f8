#include "sim/driver/fresh_memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace gpk::sim::driver {
namespace {

class Watched final : public GlobalMemory {
 public:
  struct Kept {
    Fresh range;
    std::shared_ptr<std::uint8_t> written;
  };

  Watched(std::shared_ptr<const GlobalMemory> memory, std::vector<Kept> fresh)
      : memory_(std::move(memory)), fresh_(std::move(fresh)) {}

  std::optional<Allocation> find(std::uint64_t address) const override {
    return memory_->find(address);
  }
  std::optional<Allocation> nearest(std::uint64_t address) const override {
    return memory_->nearest(address);
  }
  const Fresh* fresh(std::uint64_t address) const override {
    const auto after =
        std::upper_bound(fresh_.begin(), fresh_.end(), address,
                         [](std::uint64_t a, const Kept& kept) { return a < kept.range.base; });
    if (after == fresh_.begin()) return nullptr;
    const Fresh& before = std::prev(after)->range;
    return address - before.base < before.bytes ? &before : nullptr;
  }

 private:
  std::shared_ptr<const GlobalMemory> memory_;
  std::vector<Kept> fresh_;  // sorted
};

// Pages of it come when a kernel writes.
std::shared_ptr<std::uint8_t> make_flags(std::size_t bytes) {
  auto* flags = static_cast<std::uint8_t*>(std::calloc(bytes, 1));
  if (flags == nullptr) throw std::bad_alloc();
  return {flags, [](std::uint8_t* made) { std::free(made); }};
}

// For kernels that run now and know the range.
void set_flags(std::uint8_t* flags, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) __atomic_store_n(flags + i, 1, __ATOMIC_RELAXED);
}

}  // namespace

void FreshMemory::add(std::uint64_t base, std::size_t bytes, std::string name) {
  const std::lock_guard lock(mutex_);
  cut(base, bytes);
  if (bytes > 0) ranges_[base] = {bytes, std::move(name), 0, nullptr};
}

void FreshMemory::write(std::uint64_t base, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  cut(base, bytes);
}

void FreshMemory::write_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [base, range] : ranges_)
    if (range.written.use_count() > 1) set_flags(range.written.get(), range.bytes);
  ranges_.clear();
}

// Takes the bytes out of all ranges; what lies before and behind stays.
void FreshMemory::cut(std::uint64_t base, std::size_t bytes) {
  const std::uint64_t end = base + bytes;
  auto at = ranges_.upper_bound(base);
  if (at != ranges_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > base) --at;
  while (at != ranges_.end() && at->first < end) {
    const std::uint64_t start = at->first;
    const Range range = std::move(at->second);
    at = ranges_.erase(at);
    const auto part = [&](std::uint64_t from, std::uint64_t to) {
      const std::size_t skipped = from - start;
      std::shared_ptr<std::uint8_t> flags;
      if (range.written) flags = {range.written, range.written.get() + skipped};
      ranges_[from] = {to - from, range.name, range.offset + skipped, std::move(flags)};
    };
    const std::uint64_t first = std::max(start, base);
    const std::uint64_t last = std::min<std::uint64_t>(start + range.bytes, end);
    if (range.written.use_count() > 1)
      set_flags(range.written.get() + (first - start), last - first);
    if (start < first) part(start, first);
    if (last < start + range.bytes) part(last, start + range.bytes);
  }
}

std::shared_ptr<const GlobalMemory> FreshMemory::watched(
    std::shared_ptr<const GlobalMemory> memory) {
  const std::lock_guard lock(mutex_);
  if (ranges_.empty()) return memory;
  std::vector<Watched::Kept> kept;
  for (auto& [base, range] : ranges_) {
    if (!range.written) range.written = make_flags(range.bytes);
    kept.push_back(
        {{base, range.bytes, range.offset, range.written.get(), range.name}, range.written});
  }
  return std::make_shared<const Watched>(std::move(memory), std::move(kept));
}

}  // namespace gpk::sim::driver
