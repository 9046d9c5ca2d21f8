// The state of a running grid. A warp is split where its lanes diverge; the splits join again at
// immediate post-dominators.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/clocks.h"
#include "sim/launch.h"
#include "sim/program.h"

namespace gpk::sim {

struct Block;
struct Cluster;
struct Grid;
struct Warp;
struct BlockOrder;  // races.h
struct ClusterClock;
struct Races;
struct WarpClock;
struct Undefined;  // undefined.h
struct Tracer;     // trace.h

// A lane did what a device refuses. Ends the grid.
struct Fault {
  std::string kind;
  unsigned lane;
  std::string text;
};

struct AlignedBytes {
  std::unique_ptr<std::byte[]> storage;
  std::byte* data = nullptr;
  std::size_t size = 0, capacity = 0;
  // Kept bytes are as they were; new ones are zero.
  void reset(std::size_t bytes, bool zero);
};

struct Frame {
  const Function* function = nullptr;
  Frame* caller = nullptr;
  const Op* call = nullptr;
  std::uint32_t local_base = 0;
  AlignedBytes registers;
};

// Where the splits of a warp join: at `pc` of `frame`, once all `pending` lanes have arrived.
struct Join {
  std::uint32_t pc = 0;
  Frame* frame = nullptr;
  std::uint32_t pending = 0, arrived = 0;
  Join* parent = nullptr;
  bool is_return = false;  // of a call: reached by `ret`
};

struct Split {
  enum class State : std::uint8_t { kReady, kBarrier, kCluster, kWarpSync, kWarpgroup };
  Frame* frame = nullptr;
  Join* join = nullptr;
  std::uint32_t pc = 0, mask = 0;
  State state = State::kReady;
  std::uint8_t barrier = 0;     // kBarrier
  std::uint32_t sync_mask = 0;  // kWarpSync
};

inline constexpr unsigned kWarpgroupWarps = 4;

enum Spin : std::uint8_t { kNoSpin, kSpinMbarrier, kSpinMemory };

struct Warp {
  Warp();
  ~Warp();
  // Of the split that runs.
  std::byte* regs = nullptr;
  const std::byte* constants = nullptr;  // their end
  std::uint32_t pc = 0, mask = 0;
  Frame* frame = nullptr;
  Join* join = nullptr;
  bool stop = false;  // the split ended or waits
  bool running_now = false;
  bool watch = false;     // accesses are counted or checked
  std::uint8_t spin = 0;  // it polls (Spin): let others run
  Block* block = nullptr;
  Grid* grid = nullptr;

  // The global allocation touched last.
  std::uint64_t allocation = 0, allocation_bytes = 0;

  unsigned index = 0;
  std::uint32_t live = 0;     // lanes that have not exited
  std::vector<Split> splits;  // but for the one that runs
  std::vector<std::byte> locals;
  std::size_t local_bytes = 0;              // per lane
  std::vector<std::uint8_t> local_written;  // by byte of locals; empty: not checked
  std::unique_ptr<WarpClock> clock;         // null: races are not checked
  // The mbarrier whose wait failed last, for reports of deadlocks.
  const Op* waits_at = nullptr;
  std::uint32_t waits_for = 0, waits_phase = 0;
  std::uint32_t polls = 0;
  std::uint32_t sync_epoch = 1;                          // warp-wide operations passed
  std::unordered_map<std::uint32_t, LineCounts> counts;  // by location
  std::uint64_t lane_ops = 0, warp_ops = 0;
  std::uint32_t cluster_phase = 0;    // of the cluster's barrier when this warp arrived
  std::uint32_t cluster_arrived = 0;  // lanes

  std::vector<std::unique_ptr<Frame>> frames, free_frames;
  std::vector<std::unique_ptr<Join>> joins;
  std::vector<Join*> free_joins;

  template <class T>
  T* cell(Cell at) {
    return reinterpret_cast<T*>(regs + at);
  }
  template <class T>
  const T* source(Cell at) const {
    return reinterpret_cast<const T*>((at >= 0 ? regs : constants) + at);
  }
  std::uint32_t predicate(Cell at) const { return *source<std::uint32_t>(at); }
  void set_predicate(Cell at, std::uint32_t value, std::uint32_t lanes) {
    std::uint32_t& word = *cell<std::uint32_t>(at);
    word = (word & ~lanes) | (value & lanes);
  }

  std::unique_ptr<Undefined> undefined;  // null: no register is
  Tracer* tracer = nullptr;              // of the one warp that is traced

  Join* new_join();
  void free_join(Join* done) { free_joins.push_back(done); }
};

struct Barrier {
  std::uint32_t expected = 0;          // threads; 0: nobody waits
  std::vector<std::uint32_t> arrived;  // lanes by warp, waiting or not
  std::uint32_t red_and = kFull, red_or = 0;
  std::uint32_t popc = 0;
  std::uint32_t generation = 0;
  std::unique_ptr<Knowledge> clock;  // of those that arrived
};

struct Shadow;  // checks.h

struct Block {
  Block();
  ~Block();
  Cluster* cluster = nullptr;
  Grid* grid = nullptr;
  Dim3 index;
  unsigned rank = 0;  // in its cluster
  Dim3 cluster_index;
  AlignedBytes shared;  // kSharedReserved bytes of it are never touched
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Barrier, 16> barriers;
  std::unique_ptr<Shadow> shadow;
  std::unique_ptr<BlockOrder> order;
  unsigned running = 0;  // warps that have not exited
};

// Blocks that run together: a cluster, or one block. Run by one host thread at a time.
struct Cluster {
  Cluster();
  ~Cluster();
  std::vector<std::unique_ptr<Block>> blocks;
  std::uint64_t events =
      0;  // barriers completed, mbarriers changed: what a spinning warp waits for
  std::uint32_t barrier_phase = 0;
  std::uint64_t rng = 0;
  std::vector<Warp*> order;
  std::unique_ptr<ClusterClock> clock;
};

struct Grid {
  Grid();
  ~Grid();
  const Kernel* kernel = nullptr;
  const Program* program = nullptr;
  LaunchShape shape;
  const LaunchOptions* options = nullptr;
  const GlobalMemory* memory = nullptr;
  AlignedBytes params;
  AlignedBytes constants;
  const std::byte* constants_end = nullptr;
  std::size_t shared_bytes = 0;  // per block, with the reserved bytes
  unsigned threads_per_block = 1, warps_per_block = 1;
  Tracer* tracer = nullptr;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> lane_ops{0};
  std::atomic<std::uint64_t> warp_ops{0};
  std::unique_ptr<Races> races;  // null: not checked
  std::mutex mutex;
  std::vector<Finding> findings;
  bool failed = false;
  std::unordered_map<std::uint32_t, LineCounts> counts;

  // A finding that does not end the grid. Thread-safe.
  void report(const Warp& warp, const Op& op, unsigned lane, const char* kind, std::string text,
              bool fatal);
};

// Bytes behind an address of a space; throws Fault if the lane may not touch them.
std::byte* global_bytes(Warp& warp, std::uint64_t address, std::size_t bytes, unsigned lane);
std::byte* shared_bytes(Warp& warp, std::uint32_t address, std::size_t bytes, unsigned lane);
std::byte* local_bytes(Warp& warp, std::uint32_t address, std::size_t bytes, unsigned lane);
std::byte* generic_bytes(Warp& warp, std::uint64_t address, std::size_t bytes, unsigned lane);
// Whether a global access is inside of what the kernel may touch.
bool in_allocation(Warp& warp, std::uint64_t address, std::size_t bytes);
Block& shared_owner(Warp& warp, std::uint32_t address, unsigned lane);

std::string hex(std::uint64_t value);

// --- control.cpp
void run_warp(Warp& warp,
              std::uint64_t budget);  // until it waits, spins, exits or has used its budget
bool finished(const Warp& warp);
void start_warp(Warp& warp, Block& block, unsigned index);
// The running split waits in this state; the warp runs another one.
Split& park(Warp& warp, Split::State state);
void pick_split(Warp& warp);

// --- cluster.cpp
enum class Progress { kDone, kStalled, kDeadlock };
Progress run_cluster(Cluster& cluster);  // kDeadlock: nothing in it can go on
std::string waiting_text(const Cluster& cluster);

template <class F>
inline void for_lanes(std::uint32_t mask, F&& body) {
  while (mask != 0) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(mask));
    mask &= mask - 1;
    body(lane);
  }
}

}  // namespace gpk::sim
