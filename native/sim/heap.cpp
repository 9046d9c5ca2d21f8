#include "sim/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "sim/machine.h"
#include "sim/warp_ops.h"

namespace gpk::sim {
DeviceHeap& device_heap() {
  static auto* heap = new DeviceHeap;  // never destroyed: streams' threads outlive main()
  return *heap;
}

// The last of those that share a byte with the range; end(): none does.
DeviceHeap::Ranges::iterator DeviceHeap::overlapping(Ranges& ranges, std::uint64_t from,
                                                     std::size_t bytes) {
  const auto after = ranges.lower_bound(from + bytes);
  if (after == ranges.begin()) return ranges.end();
  const auto before = std::prev(after);
  return before->first + rounded(before->second) > from ? before : ranges.end();
}

std::uint64_t DeviceHeap::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > kMaxBytes) return 0;
  const std::size_t size = rounded(bytes);
  if (used_ + size > kMaxBytes) return 0;
  if (base_ == 0) {
    void* memory = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 0;
    base_ = reinterpret_cast<std::uint64_t>(memory);
  }
  // Less than one in a hundred bytes is in use, so that a gap comes soon.
  for (;;) {
    if (next_ + size > kReserved) next_ = 0;
    const auto taken = overlapping(live_, base_ + next_, size);
    if (taken == live_.end()) break;
    next_ = taken->first + rounded(taken->second) - base_;
  }
  const std::uint64_t address = base_ + next_;
  for (auto old = overlapping(freed_, address, size); old != freed_.end();
       old = overlapping(freed_, address, size))
    freed_.erase(old);
  next_ += size;
  used_ += size;
  live_[address] = bytes;
  return address;
}

bool DeviceHeap::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  used_ -= rounded(found->second);
  freed_[address] = found->second;
  live_.erase(found);
  return true;
}

std::optional<DeviceHeap::Found> DeviceHeap::find(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  if (address - base_ >= kReserved) return std::nullopt;
  if (const auto at = overlapping(live_, address, 1); at != live_.end())
    return Found{{at->first, at->second, "memory of malloc"}, false};
  if (const auto at = overlapping(freed_, address, 1); at != freed_.end())
    return Found{{at->first, at->second, "memory of malloc, which was freed"}, true};
  return std::nullopt;
}

void heap_allocate(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* args = warp.frame->function->args.data() + op.args;
  const std::int32_t* results = args + 1 + 2 * args[0];
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t address = device_heap().allocate(call_argument(op, warp, 0, lane));
    const auto bytes = static_cast<std::size_t>(results[2]);
    std::memcpy(warp.regs + results[1] + bytes * lane, &address, std::min<std::size_t>(bytes, 8));
  });
}

void heap_free(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t address = call_argument(op, warp, 0, lane);
    if (address == 0 || device_heap().free(address)) return;
    const auto known = device_heap().find(address);
    throw Fault{"invalid", lane,
                known && known->freed
                    ? "free of " + hex(address) + ", which was freed"
                    : "free of " + hex(address) + ", which malloc did not return"};
  });
}

}  // namespace gpk::sim
