// How the order of races.h comes about: barriers, mbarriers, flags, fences, asynchronous groups.
#include <algorithm>
#include <bit>
#include <optional>

#include "sim/memory.h"
#include "sim/races.h"

namespace gpk::sim {

void acquire_seen(Warp& warp) {
  WarpClock& clock = *warp.clock;
  if (!clock.has_seen) return;
  clock.knows.join(clock.seen);
  clock.seen.clear();
  clock.has_seen = false;
}

void release(Warp& warp, Knowledge& into) {
  WarpClock& clock = *warp.clock;
  acquire_seen(warp);
  clock.knows.now.raise(clock.agent, clock.clock);
  into.join(clock.knows);
  ++clock.clock;
}

void acquire(Warp& warp, const Knowledge& from) {
  warp.clock->knows.join(from);
  ++warp.sync_epoch;
}

namespace {

MbarrierClock& mbarrier_of(Warp& warp, const std::byte* at) {
  ClusterClock& cluster = *warp.block->cluster->clock;
  MbarrierClock& found = cluster.mbarriers[at];
  if (found.agent == 0) {
    const std::uint32_t index = std::min(cluster.num_agents, kMaxAgents - 1);
    found.agent = cluster.number << kAgentBits | index;
    cluster.num_agents = index + 1;
  }
  return found;
}

}  // namespace

void mbarrier_initialised(Warp& warp, const std::byte* at) {
  mbarrier_of(warp, at).arriving.clear();
}

void mbarrier_arrived(Warp& warp, const std::byte* at) {
  release(warp, mbarrier_of(warp, at).arriving);
}

void mbarrier_completed(Warp& warp, const std::byte* at) {
  MbarrierClock& barrier = mbarrier_of(warp, at);
  barrier.done.join(barrier.arriving);
  barrier.arriving.clear();
  barrier.done.now.raise(barrier.agent, ++barrier.phases);
}

void mbarrier_waited(Warp& warp, const std::byte* at) { acquire(warp, mbarrier_of(warp, at).done); }

Stamp mbarrier_stamp(const Access& access, const std::byte* at) {
  const MbarrierClock& barrier = mbarrier_of(access.warp, at);
  Stamp stamp;
  stamp.agent = barrier.agent;
  stamp.clock = barrier.phases + 1;
  return stamp;
}

void flag_access(Warp& warp, const std::byte* at, bool shared, unsigned flags, bool reads,
                 bool writes) {
  WarpClock& clock = *warp.clock;
  auto& known = shared ? warp.block->cluster->clock->flags : warp.grid->races->flags;
  if (reads && !known.empty())
    if (const auto found = known.find(at); found != known.end()) {
      if ((flags & kAcquire) != 0) {
        acquire(warp, found->second);
      } else {
        clock.seen.join(found->second);
        clock.has_seen = true;
      }
    }
  if (!writes) return;
  if ((flags & kRelease) != 0) {
    release(warp, known[at]);
    ++warp.sync_epoch;
  } else if (!clock.knows.fenced.empty()) {
    Knowledge& flag = known[at];
    flag.now.join(clock.knows.fenced);
    flag.fenced.join(clock.knows.fenced);
    flag.proxied.join(clock.knows.proxied);
  }
}

void fence(const Op&, Warp& warp, std::uint32_t) {
  if (!warp.clock) return;
  WarpClock& clock = *warp.clock;
  acquire_seen(warp);
  clock.knows.now.raise(clock.agent, clock.clock);
  clock.knows.fenced = clock.knows.now;
  ++clock.clock;
  ++warp.sync_epoch;
}

void proxy_fence(const Op&, Warp& warp, std::uint32_t) {
  if (!warp.clock) return;
  WarpClock& clock = *warp.clock;
  clock.knows.now.raise(clock.agent, clock.clock);
  clock.knows.proxied = clock.knows.now;
  ++clock.clock;
}

// --- asynchronous groups ------------------------------------------------------------------------
namespace {

AsyncGroup group_of(AsyncKind kind) {
  switch (kind) {
    case AsyncKind::kCopy: return AsyncGroup::kCopy;
    case AsyncKind::kWgmma: return AsyncGroup::kWgmma;
    default: return AsyncGroup::kBulk;
  }
}

}  // namespace

Stamp async_stamp(const Access& access, AsyncKind kind) {
  WarpClock& clock = *access.warp.clock;
  auto& asyncs = access.warp.grid->races->asyncs;
  const auto group = static_cast<std::size_t>(group_of(kind));
  auto id = static_cast<std::uint32_t>(asyncs.size());
  const unsigned in_warpgroup = access.warp.index % kWarpgroupWarps;
  if (kind == AsyncKind::kWgmma) {  // one for all warps of the warpgroup
    const std::uint64_t key =
        std::uint64_t{access.warp.index / kWarpgroupWarps} << 32 | clock.commits[group][0];
    id = access.warp.block->order->wgmmas.try_emplace(key, id).first->second;
  }
  if (id == asyncs.size()) {
    AsyncOp op;
    op.agent = clock.agent;
    op.kind = kind;
    op.first = clock.agent - in_warpgroup;
    asyncs.push_back(op);
  }
  clock.pending.push_back(
      {id, kind, static_cast<std::uint8_t>(access.lane), clock.commits[group][access.lane]});
  Stamp stamp;
  stamp.agent = kPending | id;
  return stamp;
}

void async_commit(const Op& op, Warp& warp, std::uint32_t mask) {
  if (!warp.clock) return;
  auto& commits = warp.clock->commits[op.mode];
  for_lanes(mask, [&](unsigned lane) { ++commits[lane]; });
}

void async_wait(const Op& op, Warp& warp, std::uint32_t mask) {
  if (!warp.clock) return;
  WarpClock& clock = *warp.clock;
  const auto waited = static_cast<AsyncGroup>(op.mode);
  const auto& commits = clock.commits[op.mode];
  const bool all = op.imm == ~std::uint64_t{0};
  const auto done = [&](unsigned lane, std::uint32_t group) {
    return (mask >> lane & 1) != 0 && (all || group + op.imm < commits[lane]);
  };
  std::erase_if(clock.pending, [&](const PendingOp& one) {
    if (group_of(one.kind) != waited || !done(one.lane, one.group)) return false;
    if (op.mode2 != 0 && one.kind == AsyncKind::kBulkWrite) return false;
    AsyncOp& state = warp.grid->races->asyncs[one.id];
    state.done = clock.clock;
    state.agent = clock.agent;
    state.waited[warp.index % kWarpgroupWarps] = clock.clock;
    state.sync = waited == AsyncGroup::kWgmma ? 0 : warp.sync_epoch;
    return true;
  });
  if (waited == AsyncGroup::kWgmma)
    std::erase_if(clock.accumulators,
                  [&](const WarpClock::Accumulator& one) { return done(0, one.group); });
}

void bind_copies(Warp& warp, unsigned lane, const std::byte* barrier) {
  const MbarrierClock& state = mbarrier_of(warp, barrier);
  std::erase_if(warp.clock->pending, [&](const PendingOp& one) {
    if (one.kind != AsyncKind::kCopy || one.lane != lane) return false;
    AsyncOp& op = warp.grid->races->asyncs[one.id];
    op.agent = state.agent;
    op.done = state.phases + 1;
    return true;
  });
}

void watch_accumulators(Warp& warp, const Op& op, const std::int32_t* cells, unsigned count) {
  WarpClock& clock = *warp.clock;
  const std::uint32_t group = clock.commits[static_cast<std::size_t>(AsyncGroup::kWgmma)][0];
  for (unsigned i = 0; i < count; ++i) {
    const auto known =
        std::find_if(clock.accumulators.begin(), clock.accumulators.end(),
                     [&](const WarpClock::Accumulator& one) { return one.cell == cells[i]; });
    if (known == clock.accumulators.end())
      clock.accumulators.push_back({cells[i], group, op.location});
    else
      *known = {cells[i], group, op.location};
  }
}

void check_registers(Warp& warp, const Op& op, std::uint32_t mask) {
  WarpClock& clock = *warp.clock;
  const Instruction& uses = warp.grid->program->instructions[op.location];
  if (uses.how == Instruction::Reads::kAccumulates) return;
  std::optional<WarpClock::Accumulator> copied;
  for (const Cell cell : uses.reads)
    for (const WarpClock::Accumulator& one : clock.accumulators)
      if (one.cell == cell) {
        copied = one;
        if (uses.copies) break;
        const Location& location = warp.grid->program->locations[one.location];
        warp.grid->report(warp, op, static_cast<unsigned>(std::countr_zero(mask)), "stale read",
                          "read of an accumulator that the wgmma of line " +
                              std::to_string(location.source_line > 0 ? location.source_line
                                                                      : location.ptx_line) +
                              " writes, with no wgmma.wait_group between them",
                          false);
        break;
      }
  for (const RegisterWrite& write : uses.writes)
    std::erase_if(clock.accumulators,
                  [&](const WarpClock::Accumulator& one) { return one.cell == write.cell; });
  if (uses.copies && copied)
    for (const RegisterWrite& write : uses.writes)
      clock.accumulators.push_back({write.cell, copied->group, copied->location});
}

}  // namespace gpk::sim
