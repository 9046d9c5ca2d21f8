#include "sim/races.h"

#include <algorithm>
#include <cstring>

#include "sim/memory.h"
#include "sim/specials.h"

namespace gpk::sim {
namespace {

unsigned warps_of(const Cluster& cluster) {
  return static_cast<unsigned>(cluster.blocks.size()) * cluster.blocks[0]->grid->warps_per_block;
}

bool is_mbarrier(const Warp& warp, Agent agent) {
  return (agent & kAgentMask) >= warps_of(*warp.block->cluster);
}

// A pending operation as what it counts for now. False: nobody has waited for it.
bool settle(const Races& races, Stamp& stamp) {
  if ((stamp.agent & kPending) == 0) return true;
  const AsyncOp& op = races.asyncs[stamp.agent & ~kPending];
  if (op.done == 0) return false;
  stamp.agent = op.agent;
  stamp.clock = op.done;
  stamp.sync = op.sync;
  return true;
}

// Whether any warp of a warpgroup has waited for its wgmma before.
bool knows_wait(const WarpClock& clock, const AsyncOp& op) {
  for (unsigned i = 0; i < kWarpgroupWarps; ++i) {
    const Agent agent = op.first + i;
    if (op.waited[i] != 0 && (agent == clock.agent || clock.knows.now.at(agent) >= op.waited[i]))
      return true;
  }
  return false;
}

// Whether what is remembered happened before the access.
bool before(const Access& access, Stamp stamp) {
  if (stamp.agent == 0) return true;
  const Races& races = *access.warp.grid->races;
  if ((stamp.agent & kPending) != 0)
    if (const AsyncOp& op = races.asyncs[stamp.agent & ~kPending]; op.kind == AsyncKind::kWgmma)
      return knows_wait(*access.warp.clock, op);
  if (!settle(races, stamp)) return false;
  const WarpClock& clock = *access.warp.clock;
  if (stamp.agent == clock.agent)
    return stamp.lane == access.lane || stamp.sync < access.warp.sync_epoch;
  return clock.knows.now.at(stamp.agent) >= stamp.clock;
}

int line_of(const Warp& warp, const Stamp& stamp) {
  const Location& location = warp.grid->program->locations[stamp.location];
  return location.source_line > 0 ? location.source_line : location.ptx_line;
}

std::string thread_text(const Warp& warp, const Stamp& stamp) {
  const Grid& grid = *warp.grid;
  const std::uint32_t local = stamp.agent & kAgentMask;
  const Dim3 t = thread_at(grid, local % grid.warps_per_block * kLanes + stamp.lane);
  std::string text =
      "thread " + std::to_string(t.x) + ", " + std::to_string(t.y) + ", " + std::to_string(t.z);
  const std::uint32_t rank = local / grid.warps_per_block;
  if (stamp.agent >> kAgentBits != warp.clock->agent >> kAgentBits)
    text += " of block number " +
            std::to_string(((stamp.agent >> kAgentBits) - 1) * warp.block->cluster->blocks.size() +
                           rank);
  else if (rank != warp.block->rank)
    text += " of block " + std::to_string(rank) + " of the cluster";
  return text;
}

const char* name_of(AsyncKind kind) {
  switch (kind) {
    case AsyncKind::kCopy: return "cp.async";
    case AsyncKind::kWgmma: return "wgmma";
    default: return "bulk copy";
  }
}

enum class Conflict { kNone, kAfterWrite, kAfterRead, kProxy };

struct Found {
  Conflict conflict = Conflict::kNone;
  Stamp other;
};

void report(const Access& access, const Found& found, const std::string& where) {
  Stamp other = found.other;
  const Races& races = *access.warp.grid->races;
  const bool pending = !settle(races, other);
  const std::string line = "line " + std::to_string(line_of(access.warp, other));
  const bool wrote = found.conflict != Conflict::kAfterRead;
  if (found.conflict == Conflict::kProxy)
    return access.warp.grid->report(access.warp, access.op, access.lane, "missing fence",
                                    "asynchronous read of what " + thread_text(access.warp, other) +
                                        " stored on " + line +
                                        ", with no fence.proxy.async between them: " + where,
                                    false);
  const bool counted = !pending && is_mbarrier(access.warp, other.agent);
  const char* act = access.write ? "write over what " : "read of what ";
  if (pending || counted) {
    const char* name = pending ? name_of(races.asyncs[other.agent & ~kPending].kind) : "bulk copy";
    const char* kind = access.write ? "race" : "stale read";
    return access.warp.grid->report(access.warp, access.op, access.lane, kind,
                                    act + std::string("the ") + name + " of " + line +
                                        (wrote ? " writes" : " reads") + ", with no wait for " +
                                        (counted ? "its mbarrier" : "its group") + ": " + where,
                                    false);
  }
  access.warp.grid->report(access.warp, access.op, access.lane, "race",
                           act + std::string("another thread ") + (wrote ? "wrote" : "read") +
                               " (" + thread_text(access.warp, other) + ", " + line +
                               ") with no synchronisation between them: " + where,
                           false);
}

void remember_read(const Access& access, ShadowCell& cell) {
  for (Stamp& slot : cell.reads)
    if (slot.agent == 0 || before(access, slot)) {
      slot = access.stamp;
      return;
    }
  // Of the lanes of a warp two are enough; other warps come first.
  if (cell.reads[0].agent != access.stamp.agent || cell.reads[1].agent == access.stamp.agent)
    cell.reads[1] = access.stamp;
}

Conflict after_write(const Access& access, const Stamp& write) {
  if (!before(access, write)) return Conflict::kAfterWrite;
  const bool plain = write.async == 0 && (write.agent & kPending) == 0;
  const bool fenced = access.warp.clock->knows.proxied.at(write.agent) >= write.clock;
  return access.async && !access.write && plain && !fenced ? Conflict::kProxy : Conflict::kNone;
}

void touch(const Access& access, ShadowCell& cell, bool same_value, Found& found) {
  const auto note = [&](Conflict conflict, const Stamp& other) {
    if (found.conflict == Conflict::kNone) found = {conflict, other};
  };
  const bool harmless = access.write && same_value;
  const Stamp& last = cell.write;
  if (last.agent != 0 && !harmless && !(last.strong != 0 && access.strong)) {
    const Conflict first = after_write(access, last);
    const bool known = !access.write && std::ranges::any_of(cell.again, [&](const Stamp& same) {
      return same.agent != 0 && after_write(access, same) == Conflict::kNone;
    });
    if (first != Conflict::kNone && !known) note(first, last);
  }
  if (!access.write) return remember_read(access, cell);
  if (!harmless)
    for (Stamp& reader : cell.reads) {
      if (reader.agent != 0 && !(reader.strong != 0 && access.strong) && !before(access, reader))
        note(Conflict::kAfterRead, reader);
      reader = Stamp{};
    }
  if (harmless && last.agent != 0 && !before(access, last)) {
    Stamp& first = cell.again[0];
    (before(access, first) ? first : cell.again[1]) = access.stamp;
    return;
  }
  cell.write = access.stamp;
  cell.again = {};
}

void fill_stamp(Access& access) {
  const WarpClock& clock = *access.warp.clock;
  if (access.stamp.agent == 0) {
    access.stamp.agent = clock.agent;
    access.stamp.clock = clock.clock;
    access.stamp.sync = access.warp.sync_epoch;
  }
  access.stamp.location = access.op.location & 0x1ffffff;
  access.stamp.lane = access.lane & 31;
  access.stamp.strong = access.strong ? 1 : 0;
  access.stamp.async = access.async ? 1 : 0;
}

Found check_range(const Access& access, ShadowMemory& memory, std::uint64_t key,
                  const std::byte* host, std::size_t bytes) {
  Found found;
  const std::uint64_t first = key;
  memory.visit(key, bytes, [&](ShadowCell& cell, std::uint64_t at, std::uint64_t count) {
    const std::uint64_t offset = at - first;
    const bool same =
        access.fresh != nullptr && std::memcmp(access.fresh + offset, host + offset, count) == 0;
    touch(access, cell, same, found);
  });
  return found;
}

void note_remote(const Access& access, Block& owner) {
  if (owner.running == 0) {
    access.warp.grid->report(access.warp, access.op, access.lane, "use after exit",
                             "access to the shared memory of block " + std::to_string(owner.rank) +
                                 " of the cluster, which has exited",
                             false);
    return;
  }
  if ((access.stamp.agent & kPending) != 0) return;
  owner.order->remote[access.stamp.agent] = {access.stamp.clock, &access.warp, &access.op,
                                             access.lane};
}

}  // namespace

void start_races(Cluster& cluster, std::uint64_t index) {
  cluster.clock = std::make_unique<ClusterClock>();
  cluster.clock->number = static_cast<std::uint32_t>(index % ((1u << (31 - kAgentBits)) - 1)) + 1;
  Agent next = cluster.clock->number << kAgentBits;
  for (const auto& block : cluster.blocks) {
    block->order = std::make_unique<BlockOrder>();
    for (const auto& warp : block->warps) {
      warp->clock = std::make_unique<WarpClock>();
      warp->clock->agent = next++;
    }
  }
  cluster.clock->num_agents = next & kAgentMask;
}

void race_shared(Access access, Block& owner, std::size_t offset, std::size_t bytes) {
  if (offset < kSharedReserved || offset + bytes > owner.shared.size) return;
  fill_stamp(access);
  if (&owner != access.warp.block) note_remote(access, owner);
  const Found found =
      check_range(access, owner.order->memory, offset, owner.shared.data + offset, bytes);
  if (found.conflict != Conflict::kNone)
    report(access, found,
           std::to_string(bytes) + " bytes at byte " + std::to_string(offset - kSharedReserved) +
               " of shared memory");
}

void race_global(Access access, std::uint64_t address, std::size_t bytes) {
  fill_stamp(access);
  const Found found = check_range(access, access.warp.grid->races->global, address,
                                  reinterpret_cast<const std::byte*>(address), bytes);
  if (found.conflict == Conflict::kNone) return;
  std::string where = std::to_string(bytes) + " bytes";
  if (const auto in = access.warp.grid->memory->find(address))
    where += " at byte " + std::to_string(address - in->base) + " of " +
             (in->name.empty() ? "an allocation" : in->name);
  report(access, found, where);
}

// A block must not leave while others may still touch its shared memory.
void warp_exited(Warp& warp) {
  if (!warp.clock) return;
  Block& block = *warp.block;
  release(warp, block.order->exit);
  if (block.running != 0) return;
  for (const auto& [agent, last] : block.order->remote)
    if (block.order->exit.now.at(agent) < last.clock)
      warp.grid->report(*last.warp, *last.op, last.lane, "use after exit",
                        "access to the shared memory of block " + std::to_string(block.rank) +
                            " of the cluster, which does not wait for it before it exits",
                        false);
}

}  // namespace gpk::sim
