#include "sim/barriers.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>

#include "sim/checks.h"
#include "sim/control.h"
#include "sim/machine.h"
#include "sim/races.h"

namespace gpk::sim {
namespace {

void finish_barrier(const Barrier& state, Warp& warp, Split& split) {
  const Op& op = split.frame->function->code[split.pc];
  std::byte* saved = warp.regs;
  warp.regs = split.frame->registers.data;
  switch (op.mode) {
    case kRedPopc:
      for_lanes(split.mask,
                [&](unsigned lane) { warp.cell<std::uint32_t>(op.dst)[lane] = state.popc; });
      break;
    case kRedAnd: warp.set_predicate(op.dst, state.red_and, split.mask); break;
    case kRedOr: warp.set_predicate(op.dst, state.red_or, split.mask); break;
    default: break;
  }
  warp.regs = saved;
  split.state = Split::State::kReady;
  ++split.pc;
}

// A warp counts in full once all its live lanes have arrived.
void complete_if_all_arrived(Block& block, unsigned id) {
  Barrier& state = block.barriers[id];
  if (state.arrived.empty()) return;
  std::uint32_t arrived = 0;
  std::uint32_t alive = 0;
  bool any = false;
  for (std::size_t i = 0; i < block.warps.size(); ++i) {
    const std::uint32_t live = block.warps[i]->live;
    const std::uint32_t here = state.arrived[i];
    any = any || here != 0;
    if (live != 0) alive += kLanes;
    if (here == 0) continue;
    arrived += (here & live) == live ? kLanes : static_cast<std::uint32_t>(std::popcount(here));
  }
  const std::uint32_t expected = state.expected == 0 ? alive : state.expected;
  if (!any || arrived < expected) return;
  for (const auto& warp : block.warps)
    for (Split& split : warp->splits)
      if (split.state == Split::State::kBarrier && split.barrier == id) {
        finish_barrier(state, *warp, split);
        if (state.clock) acquire(*warp, *state.clock);
      }
  const std::uint32_t generation = state.generation + 1;
  state = Barrier{};
  state.generation = generation;
  ++block.cluster->events;
}

void complete_cluster_barrier(Cluster& cluster) {
  bool any = false;
  for (const auto& block : cluster.blocks)
    for (const auto& warp : block->warps) {
      if ((warp->cluster_arrived & warp->live) != warp->live) return;
      any = any || warp->cluster_arrived != 0;
    }
  if (!any) return;
  ++cluster.barrier_phase;
  ++cluster.events;
  if (cluster.clock) {
    cluster.clock->done.join(cluster.clock->arriving);
    cluster.clock->arriving.clear();
  }
  for (const auto& block : cluster.blocks) {
    for (const auto& warp : block->warps) {
      warp->cluster_arrived = 0;
      for (Split& split : warp->splits)
        if (split.state == Split::State::kCluster) {
          split.state = Split::State::kReady;
          ++split.pc;
          if (cluster.clock) acquire(*warp, cluster.clock->done);
        }
    }
  }
}

// Once all live warps of the warpgroup wait.
void complete_warpgroup_wait(Block& block, std::size_t first) {
  const std::size_t last = std::min(first + kWarpgroupWarps, block.warps.size());
  const auto waits = [](const Split& split) { return split.state == Split::State::kWarpgroup; };
  for (std::size_t i = first; i < last; ++i) {
    const Warp& warp = *block.warps[i];
    if (warp.live != 0 && std::none_of(warp.splits.begin(), warp.splits.end(), waits)) return;
  }
  for (std::size_t i = first; i < last; ++i)
    for (Split& split : block.warps[i]->splits)
      if (waits(split)) {
        async_wait(split.frame->function->code[split.pc], *block.warps[i], split.mask);
        split.state = Split::State::kReady;
        ++split.pc;
        ++block.cluster->events;
      }
}

std::size_t warpgroup_of(const Warp& warp) {
  return warp.index / kWarpgroupWarps * kWarpgroupWarps;
}

}  // namespace

void warpgroup_wait(const Op&, Warp& warp, std::uint32_t) {
  park(warp, Split::State::kWarpgroup);
  complete_warpgroup_wait(*warp.block, warpgroup_of(warp));
}

void complete_barriers_after_exit(Warp& warp) {
  Block& block = *warp.block;
  for (unsigned id = 0; id < block.barriers.size(); ++id)
    if (!block.barriers[id].arrived.empty()) complete_if_all_arrived(block, id);
  if (block.cluster->blocks.size() > 1 || warp.cluster_arrived != 0)
    complete_cluster_barrier(*block.cluster);
  complete_warpgroup_wait(block, warpgroup_of(warp));
  // Lanes that wait at a warp-wide operation look again at who is left.
  for (Split& split : warp.splits)
    if (split.state == Split::State::kWarpSync) split.state = Split::State::kReady;
}

void barrier(const Op& op, Warp& warp, std::uint32_t mask) {
  Block& block = *warp.block;
  const unsigned lead = static_cast<unsigned>(std::countr_zero(mask));
  const std::uint32_t id = warp.source<std::uint32_t>(op.a)[lead];
  if (id >= block.barriers.size())
    throw Fault{"invalid", lead, "barrier " + std::to_string(id) + " of 16"};
  if (warp.grid->options->check && mask != warp.live && op.mode2 != 0)
    warp.grid->report(warp, op, lead, "divergent barrier",
                      "lanes " + hex(mask) + " of " + hex(warp.live) + " of a warp reach barrier " +
                          std::to_string(id) + " apart from the others",
                      false);
  Barrier& state = block.barriers[id];
  if (state.arrived.empty()) state.arrived.resize(block.warps.size());
  if (op.b != kNoCell) state.expected = warp.source<std::uint32_t>(op.b)[lead];
  if (warp.clock) {
    if (!state.clock) state.clock = std::make_unique<Knowledge>();
    release(warp, *state.clock);
  }
  state.arrived[warp.index] |= mask;
  if (op.mode >= kRedPopc) {
    const std::uint32_t value = (warp.predicate(op.c) ^ ((op.flags & 1) != 0 ? kFull : 0)) & mask;
    state.popc += static_cast<std::uint32_t>(std::popcount(value));
    if (value != mask) state.red_and = 0;
    if (value != 0) state.red_or = kFull;
  }
  if (op.mode == kArrive) {
    ++warp.pc;
  } else {
    park(warp, Split::State::kBarrier).barrier = static_cast<std::uint8_t>(id);
  }
  complete_if_all_arrived(block, id);
}

void cluster_arrive(const Op&, Warp& warp, std::uint32_t mask) {
  if (warp.clock) release(warp, warp.block->cluster->clock->arriving);
  warp.cluster_arrived |= mask;
  warp.cluster_phase = warp.block->cluster->barrier_phase;
  complete_cluster_barrier(*warp.block->cluster);
  ++warp.pc;
}

void cluster_wait(const Op&, Warp& warp, std::uint32_t) {
  if (warp.cluster_phase != warp.block->cluster->barrier_phase) {
    if (warp.clock) acquire(warp, warp.block->cluster->clock->done);
    ++warp.pc;
    return;
  }
  park(warp, Split::State::kCluster);
}

void warp_sync(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto inner = reinterpret_cast<Handler>(op.imm);
  const Cell members_cell = warp.frame->function->args[op.args];
  const unsigned lead = static_cast<unsigned>(std::countr_zero(mask));
  const std::uint32_t members = warp.source<std::uint32_t>(members_cell)[lead];
  if ((members >> lead & 1) == 0 && warp.grid->options->check)
    throw Fault{"invalid", lead, "the lane is not in its own member mask " + hex(members)};
  const std::uint32_t needed = members & warp.live;
  ++warp.sync_epoch;
  if (warp.clock) acquire_seen(warp);
  if ((needed & ~mask) == 0) {
    inner(op, warp, mask);
    ++warp.pc;
    return;
  }
  std::uint32_t here = mask;
  const bool barrier_only = inner == nothing;
  const auto matches = [&](const Split& split) {
    if (split.state != Split::State::kWarpSync || split.frame != warp.frame) return false;
    return split.pc == warp.pc || (barrier_only && split.sync_mask == members);
  };
  for (const Split& split : warp.splits)
    if (matches(split)) here |= split.mask;
  if ((needed & ~here) == 0) {
    inner(op, warp, here);
    for (Split& split : warp.splits)
      if (matches(split)) {
        split.state = Split::State::kReady;
        ++split.pc;
      }
    ++warp.pc;
    return;
  }
  park(warp, Split::State::kWarpSync).sync_mask = barrier_only ? members : 0;
}

}  // namespace gpk::sim
