// The heap of malloc and free in kernels: of the process, so that memory outlives its launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "base/round_up.h"
#include "sim/launch.h"
#include "sim/program.h"

namespace gpk::sim {

// Thread safe.
class DeviceHeap {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;  // in use at once, as CUDA's

  // Aligned to 16 bytes; 0: no more.
  std::uint64_t allocate(std::size_t bytes);
  // False: nothing was allocated there, or it was freed.
  bool free(std::uint64_t address);
  // What holds the address, or ends just before it, and whether it was freed.
  struct Found {
    GlobalMemory::Allocation allocation;
    bool freed;
  };
  std::optional<Found> find(std::uint64_t address);

 private:
  using Ranges = std::map<std::uint64_t, std::size_t>;
  static Ranges::iterator overlapping(Ranges& ranges, std::uint64_t from, std::size_t bytes);

  // Addresses are used again as late as possible: a stale pointer stays one, and what two threads
  // had one after the other is no race.
  static constexpr std::size_t kReserved = std::size_t{1} << 30;

  static constexpr std::size_t kGap = 16;  // between two, so that the end of one is found

  static std::size_t rounded(std::size_t bytes) { return round_up(bytes, 16) + kGap; }

  std::mutex mutex_;
  std::uint64_t base_ = 0;  // of the reserved range
  std::size_t next_ = 0;    // offset
  std::size_t used_ = 0;
  Ranges live_, freed_;  // address to bytes asked for
};

DeviceHeap& device_heap();

// Calls of malloc and free; args as call.
void heap_allocate(const Op& op, Warp& warp, std::uint32_t mask);
void heap_free(const Op& op, Warp& warp, std::uint32_t mask);

}  // namespace gpk::sim
