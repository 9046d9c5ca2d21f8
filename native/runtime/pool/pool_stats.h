// Statistics of the memory pool, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace gpk::runtime {

// used + cached = reserved.
struct PoolStats {
  std::size_t quota_bytes = 0;      // 0: none
  std::size_t reserved_bytes = 0;   // physical memory held
  std::size_t used_bytes = 0;       // allocated and resident, in block sizes
  std::size_t cached_bytes = 0;     // held and not allocated
  std::size_t spare_bytes = 0;      // of cached: physical memory that is not mapped
  std::size_t pending_bytes = 0;    // of cached: freed, another stream may still use it
  std::size_t set_aside_bytes = 0;  // of cached: holes of reservations and captures
  std::size_t peak_used_bytes = 0;  // exact with one thread, else an upper bound
  std::size_t peak_reserved_bytes = 0;
  std::size_t largest_free_bytes = 0;  // the largest hole
  std::size_t evicted_bytes = 0;       // now in host memory: always whole chunks
  std::size_t host_bytes = 0;          // pinned host memory held, in use or cached
  std::size_t num_blocks = 0;          // allocated
  std::size_t num_allocations = 0;
  std::size_t num_reuses = 0;  // allocations that needed no new physical memory
  std::size_t num_driver_calls = 0;
  std::size_t num_host_waits = 0;  // times the host waited for the device
  std::size_t num_evictions = 0;
  std::size_t num_restores = 0;
  std::size_t evicted_total_bytes = 0;   // copied to the host, ever
  std::size_t restored_total_bytes = 0;  // copied back, ever
};

struct PoolAccountStats {
  std::uint64_t id = 0;  // 0: no account
  std::string name;
  std::size_t used_bytes = 0;  // on the device or evicted
  std::size_t peak_bytes = 0;
  std::size_t limit_bytes = 0;  // 0: none
  std::size_t num_refused = 0;
};

struct PoolArenaStats {
  std::size_t reserved_bytes = 0;  // physical memory of the arena
  std::size_t free_bytes = 0;      // of it in holes
  std::size_t largest_free_bytes = 0;
};

// One range of the pool's address space.
struct PoolPiece {
  enum class Kind { kUsed, kPending, kCached, kEvicted, kHole };
  Kind kind = Kind::kHole;
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  std::uint64_t stream = 0;  // that used it last; meaningless where stream_known is false
  bool stream_known = false;
  std::uint64_t arena = 0;    // 0: the common one
  std::uint64_t account = 0;  // 0: none
};

// In address order per region; unmapped memory is not listed.
using PoolSnapshot = std::vector<PoolPiece>;

}  // namespace gpk::runtime
