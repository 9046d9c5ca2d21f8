// Asynchronous copies. They are done at once: an order a device may choose, too; checks take them
// as pending until they are waited for.
#pragma once

#include "sim/program.h"

namespace gpk::sim {

// cp.async: a: shared, b: global address (flags kAddress64: of a; mode: of b), imm: bytes; c: bytes
// of the source, or kNoCell; args: offsets of a and b.
void copy_async(const Op& op, Warp& warp, std::uint32_t mask);
// cp.async.mbarrier.arrive.noinc
void copy_arrive(const Op& op, Warp& warp, std::uint32_t mask);

// Bulk copies. args: BulkCopy, then the cells of the coordinates.
struct BulkCopy {
  enum Direction : std::int32_t { kGlobalToShared, kSharedToShared, kSharedToGlobal };
  std::int32_t direction;
  std::int32_t target, source, barrier, bytes, multicast;  // cells, or kNoCell
  std::int32_t target_offset, source_offset, barrier_offset;
  std::int32_t target_wide, source_wide, barrier_wide;  // cells of 64-bit addresses
  std::int32_t rank;                                    // of a tensor; 0: a plain copy
  std::int32_t reduction;                               // Atomic, or -1
  std::int32_t type;                                    // Type of a plain reduction
};
void copy_bulk(const Op& op, Warp& warp, std::uint32_t mask);

}  // namespace gpk::sim
