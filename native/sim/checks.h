// Checks and counts of memory accesses.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/machine.h"
#include "sim/memory.h"

namespace gpk::sim {

// What is known of each byte of a block's shared memory.
struct Shadow {
  struct Byte {
    std::uint32_t write_epoch = 0, read_epoch = 0;
    std::uint32_t write_sync = 0, read_sync = 0;             // Warp::sync_epoch
    std::uint16_t writer = 0, reader = 0, other_reader = 0;  // thread + 1; other: of another warp
    bool written = false;
  };
  std::vector<Byte> bytes;
  std::uint32_t epoch = 1;  // of the block, moved on by barriers and mbarriers
};

void check_access(Space space, bool load, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes);
void count_access(Space space, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes);
// Written by something other than a store of a lane: an asynchronous copy, an mbarrier.
void mark_written(Block& block, std::size_t offset, std::size_t bytes);
// Atomics order themselves.
void mark_atomic(Warp& warp, const std::byte* at, std::size_t bytes);

}  // namespace gpk::sim
