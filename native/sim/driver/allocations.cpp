#include "sim/driver/allocations.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/round_up.h"
#include "base/text.h"

namespace gpk::sim::driver {
namespace {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

using Ranges = std::vector<GlobalMemory::Allocation>;  // sorted, disjoint

class Snapshot final : public GlobalMemory {
 public:
  Snapshot(Ranges live, Ranges freed) : live_(std::move(live)), freed_(std::move(freed)) {}

  std::optional<Allocation> find(std::uint64_t address) const override {
    const Allocation* before = last_from(live_, address);
    if (before == nullptr || address - before->base >= before->bytes) return std::nullopt;
    return *before;
  }

  // A freed range that holds the address comes first: that is what the kernel meant.
  std::optional<Allocation> nearest(std::uint64_t address) const override {
    if (const Allocation* freed = last_from(freed_, address);
        freed != nullptr && address - freed->base < freed->bytes)
      return *freed;
    const auto after = first_after(live_, address);
    const Allocation* best = nullptr;
    std::uint64_t distance = ~std::uint64_t{0};
    if (after != live_.begin()) {
      best = &*std::prev(after);
      const std::uint64_t end = best->base + best->bytes;
      distance = address < end ? 0 : address - end;
    }
    if (after != live_.end() && after->base - address < distance) best = &*after;
    return best == nullptr ? std::nullopt : std::optional<Allocation>(*best);
  }

 private:
  static Ranges::const_iterator first_after(const Ranges& ranges, std::uint64_t address) {
    return std::upper_bound(ranges.begin(), ranges.end(), address,
                            [](std::uint64_t a, const Allocation& r) { return a < r.base; });
  }
  static const Allocation* last_from(const Ranges& ranges, std::uint64_t address) {
    const auto after = first_after(ranges, address);
    return after == ranges.begin() ? nullptr : &*std::prev(after);
  }

  Ranges live_;
  Ranges freed_;
};

bool joins(const Allocation& a, const Allocation& b) {
  return a.kind == MemoryKind::kMapped && b.kind == MemoryKind::kMapped && a.device == b.device &&
         a.base + a.bytes == b.base;
}

}  // namespace

Allocations::~Allocations() {
  for (const auto* ranges : {&live_, &freed_})
    for (const auto& [base, allocation] : *ranges)
      if (allocation.reserved_bytes != 0) munmap(pointer(base), allocation.reserved_bytes);
}

std::uint64_t Allocations::allocate(std::size_t bytes, std::size_t align, MemoryKind kind,
                                    int device, std::string name) {
  const std::size_t page = page_bytes();
  const std::size_t slack = align > page ? align : 0;
  if (bytes > (std::size_t{1} << 46)) return 0;
  const std::size_t usable = round_up(std::max<std::size_t>(bytes, 1), page);
  const std::size_t reserved = usable + page + slack;
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  auto base = reinterpret_cast<std::uint64_t>(memory);
  if (slack != 0) {
    const std::uint64_t aligned = round_up(base, align);
    if (aligned > base) munmap(pointer(base), aligned - base);
    const std::uint64_t end = aligned + usable + page;
    if (base + reserved > end) munmap(pointer(end), base + reserved - end);
    base = aligned;
  }
  mprotect(pointer(base + usable), page, PROT_NONE);
  if (name.empty()) name = cat("allocation ", ++num_allocated_);
  forget_freed_in(base, usable + page);
  fresh_.write(base, usable);
  if (kind == MemoryKind::kDevice) fresh_.add(base, bytes, "");
  live_[base] = {base, bytes, kind, device, std::move(name), usable + page};
  changed();
  return base;
}

bool Allocations::free(std::uint64_t base, MemoryKind kind) {
  const auto found = live_.find(base);
  if (found == live_.end() || found->second.kind != kind) return false;
  Allocation freed = std::move(found->second);
  live_.erase(found);
  fresh_.write(base, freed.bytes);
  mmap(pointer(base), freed.reserved_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  freed.name = cat(freed.name, ", which was freed");
  freed_[base] = std::move(freed);
  freed_order_.push_back(base);
  while (freed_order_.size() > kMaxQuarantined) {
    const auto oldest = freed_.find(freed_order_.front());
    freed_order_.pop_front();
    if (oldest == freed_.end()) continue;
    if (oldest->second.reserved_bytes != 0)
      munmap(pointer(oldest->first), oldest->second.reserved_bytes);
    freed_.erase(oldest);
  }
  changed();
  return true;
}

bool Allocations::add(Allocation allocation) {
  if (const Allocation* known = find(allocation.base); known != nullptr) return false;
  if (allocation.name.empty()) allocation.name = cat("allocation ", ++num_allocated_);
  forget_freed_in(allocation.base, allocation.bytes);
  const std::uint64_t base = allocation.base;
  if (allocation.kind == MemoryKind::kMapped) fresh_.add(base, allocation.bytes, "");
  live_[base] = std::move(allocation);
  changed();
  return true;
}

bool Allocations::remove(std::uint64_t base, MemoryKind kind) {
  const auto found = live_.find(base);
  if (found == live_.end() || found->second.kind != kind) return false;
  if (kind == MemoryKind::kMapped) fresh_.write(base, found->second.bytes);
  live_.erase(found);
  changed();
  return true;
}

void Allocations::note_freed(std::uint64_t base, std::size_t bytes, std::string name) {
  forget_freed_in(base, bytes);
  freed_[base] = {base, bytes, MemoryKind::kMapped, 0, std::move(name), 0};
  freed_order_.push_back(base);
  changed();
}

// The system hands out addresses again; entries of the quarantine that own their pages cannot be
// among them.
void Allocations::forget_freed_in(std::uint64_t base, std::size_t bytes) {
  auto at = freed_.upper_bound(base);
  if (at != freed_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > base) --at;
  while (at != freed_.end() && at->first < base + bytes)
    at = at->second.reserved_bytes == 0 ? freed_.erase(at) : std::next(at);
}

const Allocation* Allocations::find(std::uint64_t address, std::size_t bytes) const {
  auto at = live_.upper_bound(address);
  if (at == live_.begin()) return nullptr;
  --at;
  const Allocation* first = &at->second;
  const std::uint64_t end = address + std::max<std::size_t>(bytes, 1);
  if (end < address) return nullptr;
  std::uint64_t reached = first->base + first->bytes;
  if (address >= reached) return nullptr;
  while (reached < end) {
    const Allocation& previous = at->second;
    if (++at == live_.end() || !joins(previous, at->second)) return nullptr;
    reached += at->second.bytes;
  }
  return first;
}

const Allocation* Allocations::at(std::uint64_t base) const {
  const auto found = live_.find(base);
  return found == live_.end() ? nullptr : &found->second;
}

void Allocations::rename(std::uint64_t base, std::string name) {
  const auto found = live_.find(base);
  if (found == live_.end()) return;
  found->second.name = std::move(name);
  changed();
}

std::size_t Allocations::used_bytes(int device, MemoryKind kind) const {
  std::size_t bytes = 0;
  for (const auto& [base, allocation] : live_)
    if (allocation.device == device && allocation.kind == kind) bytes += allocation.bytes;
  return bytes;
}

std::size_t Allocations::count(MemoryKind kind) const {
  return static_cast<std::size_t>(std::count_if(
      live_.begin(), live_.end(), [&](const auto& entry) { return entry.second.kind == kind; }));
}

std::shared_ptr<const GlobalMemory> Allocations::snapshot() {
  if (snapshot_) return snapshot_;
  Ranges live;
  const Allocation* previous = nullptr;
  for (const auto& [base, allocation] : live_) {
    if (previous != nullptr && joins(*previous, allocation)) {
      live.back().bytes += allocation.bytes;
    } else {
      live.push_back({base, allocation.bytes, allocation.name});
    }
    previous = &allocation;
  }
  Ranges freed;
  for (const auto& [base, allocation] : freed_)
    freed.push_back({base, allocation.bytes, allocation.name});
  snapshot_ = std::make_shared<const Snapshot>(std::move(live), std::move(freed));
  return snapshot_;
}

}  // namespace gpk::sim::driver
