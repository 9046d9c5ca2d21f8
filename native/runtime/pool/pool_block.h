// A block of the pool.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/pool/pool_account.h"
#include "runtime/pool/pool_range.h"

namespace gpk::runtime {

// A block of device memory. Callers read the accessors; the fields belong to the pool. Descriptors
// are reused, never freed while the pool lives, so that a double free() is detected.
struct PoolBlock {
  PoolDevice::Address address = 0;
  std::size_t bytes = 0;  // usable: at least the size requested
  PoolBlock* next = nullptr;
  PoolSpan* span = nullptr;  // of a small block; nullptr: the block is a PoolLarge
  PoolAccount* account = nullptr;
  std::uint32_t size_class = 0;
  std::atomic<bool> live{false};
};

// A block with its own range.
struct PoolLarge : PoolBlock {
  PoolRange* range = nullptr;
  bool can_evict = false;  // where eviction works at all

  // Pins in the lower bits; kAway: not directly usable, check under the lock.
  static constexpr std::uint32_t kAway = 1U << 31;
  std::atomic<std::uint32_t> uses{0};
  std::atomic<std::uint64_t> last_use{0};  // a tick of the pool
  // Streams known to be home or among the users, so that most uses take no lock.
  static constexpr PoolDevice::Stream kNoStream = ~PoolDevice::Stream{0};
  std::array<std::atomic<PoolDevice::Stream>, 4> known{kNoStream, kNoStream, kNoStream, kNoStream};
  [[nodiscard]] bool knows(PoolDevice::Stream stream) const noexcept {
    for (const auto& one : known)
      if (one.load(std::memory_order_relaxed) == stream) return true;
    return false;
  }

  std::atomic<bool> evictable{false};  // written under the pool's lock

  // Under the pool's lock.
  std::size_t next_known = 0;
  bool leaving = false;            // being copied to the host, without the lock
  std::size_t index = 0;           // among the large blocks
  std::vector<PoolStream*> users;  // streams other than home
  void* host = nullptr;            // the copy, while evicted or until restored
  std::size_t host_bytes = 0;
  std::size_t evicted_bytes = 0;       // 0: on the device
  PoolStream* ready_stream = nullptr;  // performs the copy back; nullptr: nothing to wait for
  PoolDevice::Event ready = 0;         // after that copy; 0: not recorded yet
};

}  // namespace gpk::runtime
