// Checks and counts of memory accesses.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/machine.h"
#include "sim/memory.h"

namespace gpk::sim {

// What is known of each byte of a block's shared memory.
struct Shadow {
  std::vector<std::uint8_t> written;
};

// Lanes' loads and stores, before they are done. is_matrix: of rows of 16 bytes that belong to
// several lanes.
void check_access(Space space, bool load, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes, bool is_matrix = false);
void check_atomic(Space space, const Op& op, Warp& warp, unsigned lane, std::uint64_t address,
                  unsigned bytes);
void watch_op(Warp& warp, const Op& op, std::uint32_t mask);
void count_access(Space space, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes);
// Written by something other than a store of a lane: an asynchronous copy, an mbarrier.
void mark_written(Block& block, std::size_t offset, std::size_t bytes);
// The same of global memory.
void mark_global_written(Warp& warp, std::uint64_t address, std::size_t bytes);
// A range of shared memory that an asynchronous operation reads must have been written.
void check_read(Warp& warp, const Op& op, unsigned lane, Block& owner, std::size_t offset,
                std::size_t bytes);

}  // namespace gpk::sim
