// Handlers of barriers: of a block, a cluster, the lanes of a warp.
#pragma once

#include "sim/program.h"

namespace gpk::sim {

// mode: BarrierMode; a: barrier, b: threads or kNoCell, c: predicate (flags 1: negated), dst.
enum BarrierMode : std::uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };
void barrier(const Op& op, Warp& warp, std::uint32_t mask);
void cluster_arrive(const Op& op, Warp& warp, std::uint32_t mask);
void cluster_wait(const Op& op, Warp& warp, std::uint32_t mask);

// An operation of all lanes of a member mask (cell args[0]): waits for them, then runs the handler
// in op.imm for all at once.
void warp_sync(const Op& op, Warp& warp, std::uint32_t mask);

// wgmma.wait_group, as async_wait. A group is done once all warps of the warpgroup have issued it.
void warpgroup_wait(const Op& op, Warp& warp, std::uint32_t mask);

// Lanes of the warp have exited; barriers no longer wait for them.
void complete_barriers_after_exit(Warp& warp);

}  // namespace gpk::sim
