// Races, stale reads and missing fences, by the order that synchronisation establishes. A grid that
// is checked runs on one host thread, so nothing here locks.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/clocks.h"
#include "sim/machine.h"
#include "sim/shadow.h"

namespace gpk::sim {

enum class AsyncKind : std::uint8_t { kCopy, kBulkRead, kBulkWrite, kWgmma };
enum class AsyncGroup : std::uint8_t { kCopy, kBulk, kWgmma };

// An asynchronous operation: done for the others as of a clock of the agent that waited for it.
struct AsyncOp {
  Agent agent = 0;
  std::uint32_t done = 0;  // 0: not yet
  std::uint32_t sync = 0;
  AsyncKind kind{};
  // kWgmma: of the warpgroup's warps, from agent `first` on, the clocks of their waits.
  Agent first = 0;
  std::array<std::uint32_t, kWarpgroupWarps> waited{};
};

struct PendingOp {
  std::uint32_t id;  // in Races::asyncs
  AsyncKind kind;
  std::uint8_t lane;
  std::uint32_t group;  // commits of the lane before it
};

// Of a warp.
struct WarpClock {
  Agent agent = 0;
  std::uint32_t clock = 1;
  Knowledge knows;
  Knowledge seen;  // of flags read without acquire: counts after a fence or barrier
  bool has_seen = false;
  std::array<std::array<std::uint32_t, kLanes>, 3> commits{};  // by AsyncGroup
  std::vector<PendingOp> pending;
  // Accumulators of wgmma that was not waited for: cell, group, and who wrote it.
  struct Accumulator {
    Cell cell;
    std::uint32_t group, location;
  };
  std::vector<Accumulator> accumulators;
};

struct MbarrierClock {
  Agent agent = 0;  // of the copies that report to it; its clock counts phases
  std::uint32_t phases = 0;
  Knowledge arriving, done;
};

struct ClusterClock {
  std::uint32_t number = 1;
  std::uint32_t num_agents = 0;
  std::unordered_map<const std::byte*, MbarrierClock> mbarriers;
  std::unordered_map<const std::byte*, Knowledge> flags;  // in shared memory
  Knowledge arriving, done;                               // of the cluster's barrier
};

// Of a block.
struct BlockOrder {
  ShadowMemory memory;
  Knowledge exit;  // of its warps when they left
  struct Remote {
    std::uint32_t clock;
    const Warp* warp;
    const Op* op;
    unsigned lane;
  };
  std::unordered_map<Agent, Remote> remote;                 // last accesses by other blocks
  std::unordered_map<std::uint64_t, std::uint32_t> wgmmas;  // of a warpgroup's group: in asyncs
};

// Of a grid.
struct Races {
  ShadowMemory global;
  std::vector<AsyncOp> asyncs;
  std::unordered_map<const std::byte*, Knowledge> flags;
};

void start_races(Cluster& cluster, std::uint64_t index);

// One lane's access.
struct Access {
  Warp& warp;
  const Op& op;
  unsigned lane;
  bool write = false;
  bool strong = false;               // no race with another such
  bool async = false;                // by the async proxy
  Stamp stamp{};                     // as what it is remembered; empty: as the lane's, now
  const std::byte* fresh = nullptr;  // what a store writes: the same value again is no race
};
void race_shared(Access access, Block& owner, std::size_t offset, std::size_t bytes);
void race_global(Access access, std::uint64_t address, std::size_t bytes);

// Synchronisation.
void release(Warp& warp, Knowledge& into);
void acquire(Warp& warp, const Knowledge& from);
void acquire_seen(Warp& warp);
void mbarrier_initialised(Warp& warp, const std::byte* at);
void mbarrier_arrived(Warp& warp, const std::byte* at);
void mbarrier_completed(Warp& warp, const std::byte* at);
void mbarrier_waited(Warp& warp, const std::byte* at);
// What a copy that reports to an mbarrier is remembered as.
Stamp mbarrier_stamp(const Access& access, const std::byte* at);
// A strong access: hands on what was fenced, or all with release, and takes what it finds.
void flag_access(Warp& warp, const std::byte* at, bool shared, unsigned flags, bool reads,
                 bool writes);
void warp_exited(Warp& warp);

// Asynchronous operations of threads.
Stamp async_stamp(const Access& access, AsyncKind kind);
void bind_copies(Warp& warp, unsigned lane, const std::byte* barrier);
void watch_accumulators(Warp& warp, const Op& op, const std::int32_t* cells, unsigned count);
void check_registers(Warp& warp, const Op& op, std::uint32_t mask);

// Handlers. mode: AsyncGroup. wait: imm: groups that may stay; mode2 1: only their reads matter.
void async_commit(const Op& op, Warp& warp, std::uint32_t mask);
void async_wait(const Op& op, Warp& warp, std::uint32_t mask);
void fence(const Op& op, Warp& warp, std::uint32_t mask);        // __threadfence and its kin
void proxy_fence(const Op& op, Warp& warp, std::uint32_t mask);  // fence.proxy.async

}  // namespace gpk::sim
