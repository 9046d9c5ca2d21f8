// Spreads the clusters of a grid over host threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <thread>

#include "sim/checks.h"
#include "sim/machine.h"
#include "sim/specials.h"
#include "sim/trace.h"
#include "sim/undefined.h"

namespace gpk::sim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxResident = 4096;  // clusters of a host thread that wait for others
constexpr std::chrono::seconds kPatience{10};

std::uint64_t count_of(const Dim3& dims) { return std::uint64_t{dims.x} * dims.y * dims.z; }

class Runner {
 public:
  explicit Runner(Grid& grid) : grid_(grid) {
    const Dim3& cluster = grid.shape.cluster;
    clusters_ = {grid.shape.grid.x / cluster.x, grid.shape.grid.y / cluster.y,
                 grid.shape.grid.z / cluster.z};
    total_ = count_of(clusters_);
  }

  void run() {
    const unsigned wanted = grid_.options->threads != 0
                                ? grid_.options->threads
                                : std::max(1u, std::thread::hardware_concurrency());
    const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(wanted, total_));
    std::vector<std::thread> helpers;
    try {
      for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // As many as the system gives.
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    try {
      loop();
    } catch (...) {
      const std::lock_guard lock(grid_.mutex);
      if (!error_) error_ = std::current_exception();
      grid_.stop = true;
    }
  }

  void loop() {
    std::deque<std::unique_ptr<Cluster>> resident;
    std::unique_ptr<Cluster> spare;  // its memory is used again
    std::size_t stalled = 0;
    auto quiet_since = Clock::now();
    std::uint64_t seen_progress = progress_.load();
    while (!grid_.stop.load()) {
      if (resident.empty() || (stalled >= resident.size() && resident.size() < kMaxResident)) {
        const std::uint64_t index = next_.fetch_add(1);
        if (index < total_) {
          resident.push_front(start(index, std::move(spare)));
          stalled = 0;
        } else {
          next_.store(total_);
          if (resident.empty()) return;
        }
      }
      std::unique_ptr<Cluster> cluster = std::move(resident.front());
      resident.pop_front();
      const Progress result = step(*cluster);
      if (result == Progress::kDone) {
        finish(*cluster);
        ++progress_;
        stalled = 0;
        spare = std::move(cluster);
        continue;
      }
      if (result == Progress::kDeadlock) {
        report_deadlock(*cluster, "the block can never go on");
        finish(*cluster);
        return;
      }
      ++stalled;
      resident.push_back(std::move(cluster));
      if (stalled < resident.size() || next_.load() < total_) continue;
      // All that is left polls memory.
      if (const std::uint64_t now = progress_.load(); now != seen_progress) {
        seen_progress = now;
        quiet_since = Clock::now();
      } else if (Clock::now() - quiet_since > kPatience) {
        report_deadlock(*resident.front(), "no block has come any further for ten seconds");
        return;
      } else {
        std::this_thread::yield();
      }
    }
  }

  static std::uint64_t ops_of(const Cluster& cluster) {
    std::uint64_t sum = 0;
    for (const auto& block : cluster.blocks)
      for (const auto& warp : block->warps) sum += warp->warp_ops;
    return sum;
  }

  // A slice that wrote something another cluster waits for looks like any other: progress is
  // counted whenever a cluster did more than poll.
  Progress step(Cluster& cluster) {
    const std::uint64_t events = cluster.events;
    const std::uint64_t ops = ops_of(cluster);
    Progress result = Progress::kDone;
    try {
      result = run_cluster(cluster);
    } catch (const Fault& fault) {
      report_fault(cluster, fault);
      return Progress::kDone;
    }
    if (cluster.events != events || ops_of(cluster) - ops > (std::uint64_t{1} << 22)) ++progress_;
    return result;
  }

  void report_fault(Cluster& cluster, const Fault& fault) {
    for (const auto& block : cluster.blocks)
      for (const auto& warp : block->warps)
        if (warp->running_now) {
          const Op& op = warp->frame->function->code[warp->pc];
          grid_.report(*warp, op, fault.lane, fault.kind.c_str(), fault.text, true);
          return;
        }
  }

  void report_deadlock(const Cluster& cluster, const std::string& what) {
    for (const auto& block : cluster.blocks)
      for (const auto& warp : block->warps) {
        if (finished(*warp)) continue;
        const Split* split = warp->splits.empty() ? nullptr : &warp->splits.back();
        const Frame* frame = warp->mask != 0 || split == nullptr ? warp->frame : split->frame;
        const std::uint32_t pc = warp->mask != 0 || split == nullptr ? warp->pc : split->pc;
        const std::uint32_t mask = warp->mask != 0 || split == nullptr ? warp->live : split->mask;
        const Op& op =
            frame->function->code[std::min<std::size_t>(pc, frame->function->code.size() - 1)];
        grid_.report(*warp, op, static_cast<unsigned>(__builtin_ctz(mask)), "deadlock",
                     what + waiting_text(cluster), true);
        return;
      }
  }

  std::unique_ptr<Cluster> start(std::uint64_t index, std::unique_ptr<Cluster> cluster) {
    const Dim3& dims = grid_.shape.cluster;
    const auto blocks = static_cast<unsigned>(count_of(dims));
    if (!cluster) {
      cluster = std::make_unique<Cluster>();
      for (unsigned rank = 0; rank < blocks; ++rank) {
        cluster->blocks.push_back(std::make_unique<Block>());
        for (unsigned i = 0; i < grid_.warps_per_block; ++i)
          cluster->blocks.back()->warps.push_back(std::make_unique<Warp>());
      }
    }
    const Dim3 at{static_cast<unsigned>(index % clusters_.x),
                  static_cast<unsigned>(index / clusters_.x % clusters_.y),
                  static_cast<unsigned>(index / clusters_.x / clusters_.y)};
    cluster->rng = grid_.options->seed * 0x9e3779b97f4a7c15 + index;
    cluster->events = 0;
    cluster->barrier_phase = 0;
    cluster->order.clear();
    for (unsigned rank = 0; rank < blocks; ++rank) {
      Block& block = *cluster->blocks[rank];
      block.cluster = cluster.get();
      block.grid = &grid_;
      block.rank = rank;
      block.cluster_index = {rank % dims.x, rank / dims.x % dims.y, rank / dims.x / dims.y};
      block.index = {at.x * dims.x + block.cluster_index.x, at.y * dims.y + block.cluster_index.y,
                     at.z * dims.z + block.cluster_index.z};
      block.shared.reset(grid_.shared_bytes, true);
      if (grid_.options->check || grid_.options->check_races) {
        block.shadow = std::make_unique<Shadow>();
        block.shadow->bytes.resize(grid_.shared_bytes);
      }
      for (Barrier& barrier : block.barriers) barrier = Barrier{};
      block.running = grid_.warps_per_block;
      for (unsigned i = 0; i < grid_.warps_per_block; ++i) {
        start_warp(*block.warps[i], block, i);
        cluster->order.push_back(block.warps[i].get());
      }
    }
    return cluster;
  }

  void finish(Cluster& cluster) {
    std::uint64_t lane_ops = 0;
    std::uint64_t warp_ops = 0;
    for (const auto& block : cluster.blocks)
      for (const auto& warp : block->warps) {
        lane_ops += warp->lane_ops;
        warp_ops += warp->warp_ops;
        if (warp->counts.empty()) continue;
        const std::lock_guard lock(grid_.mutex);
        for (const auto& [location, counts] : warp->counts) {
          LineCounts& sum = grid_.counts[location];
          sum.warp_ops += counts.warp_ops;
          sum.lane_ops += counts.lane_ops;
          sum.sectors += counts.sectors;
          sum.ideal_sectors += counts.ideal_sectors;
          sum.bank_conflicts += counts.bank_conflicts;
        }
      }
    grid_.lane_ops += lane_ops;
    grid_.warp_ops += warp_ops;
  }

  Grid& grid_;
  Dim3 clusters_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> progress_{0};
  std::exception_ptr error_;
};

void place_constants(Grid& grid, std::span<const std::uint64_t> addresses) {
  const Program& program = *grid.program;
  const Function& function = grid.kernel->function();
  grid.constants.reset(program.constants.size(), false);
  if (!program.constants.empty())
    std::memcpy(grid.constants.data, program.constants.data(), program.constants.size());
  grid.constants_end = grid.constants.data + program.constants.size();
  for (const Relocation& relocation : program.relocations) {
    std::uint64_t value = relocation.offset;
    switch (relocation.kind) {
      case Relocation::Kind::kGlobal: value += addresses[relocation.index]; break;
      case Relocation::Kind::kParam:
        value += reinterpret_cast<std::uint64_t>(grid.params.data);
        break;
      case Relocation::Kind::kDynamicShared: value += function.shared_end; break;
      case Relocation::Kind::kShared:
        for (const auto& [variable, at] : function.shared_layout)
          if (variable == relocation.index) value += at;
        break;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane)
      std::memcpy(grid.constants.data + relocation.at + std::size_t{relocation.bytes} * lane,
                  &value, relocation.bytes);
  }
}

void check_shape(const Kernel& kernel, const LaunchShape& shape) {
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument(kernel.name() + ": " + what);
  };
  const std::uint64_t threads = count_of(shape.block);
  if (count_of(shape.grid) == 0 || threads == 0) refuse("empty grid or block");
  if (threads > kernel.max_threads())
    refuse(std::to_string(threads) + " threads per block, at most " +
           std::to_string(kernel.max_threads()));
  const Dim3 required = kernel.required_block();
  if (required.x != 0 && !(required == shape.block)) refuse("other block shape than .reqntid");
  const Dim3& cluster = shape.cluster;
  if (count_of(cluster) == 0 || count_of(cluster) > 16 || shape.grid.x % cluster.x != 0 ||
      shape.grid.y % cluster.y != 0 || shape.grid.z % cluster.z != 0)
    refuse("clusters do not divide the grid");
  if (kernel.function().shared_end + shape.dynamic_shared_bytes >= (1u << kSharedOffsetBits))
    refuse("too much shared memory");
}

}  // namespace

void Grid::report(const Warp& warp, const Op& op, unsigned lane, const char* kind, std::string text,
                  bool fatal) {
  const Location& location = program->locations[op.location];
  const std::lock_guard lock(mutex);
  if (fatal) {
    failed = true;
    stop = true;
  } else {
    for (const Finding& one : findings)
      if (one.kind == kind && one.ptx_line == location.ptx_line) return;  // once per line
    if (findings.size() >= options->max_findings) return;
  }
  Finding finding;
  finding.kind = kind;
  finding.kernel = kernel->name();
  finding.block = warp.block->index;
  finding.thread = thread_at(*this, warp.index * kLanes + lane);
  finding.ptx_line = location.ptx_line;
  if (const auto it = program->files.find(location.file); it != program->files.end())
    finding.source_file = it->second;
  finding.source_line = location.source_line;
  finding.text = std::move(text);
  findings.push_back(std::move(finding));
}

LaunchResult run(const Kernel& kernel, const LaunchShape& shape, const void* const* params,
                 std::span<const std::uint64_t> global_addresses, const GlobalMemory& memory,
                 const LaunchOptions& options) {
  Grid grid;
  grid.kernel = &kernel;
  grid.program = &kernel.program();
  grid.shape = shape;
  if (const Dim3 cluster = kernel.required_cluster(); cluster.x != 0) grid.shape.cluster = cluster;
  check_shape(kernel, grid.shape);
  if (global_addresses.size() != grid.program->globals.size())
    throw std::invalid_argument(kernel.name() + ": " + std::to_string(global_addresses.size()) +
                                " addresses for " + std::to_string(grid.program->globals.size()) +
                                " module variables");
  grid.options = &options;
  grid.memory = &memory;
  grid.params.reset(std::max<std::size_t>(kernel.param_bytes(), 1), true);
  for (std::size_t i = 0; i < kernel.params().size(); ++i)
    std::memcpy(grid.params.data + kernel.params()[i].offset, params[i], kernel.params()[i].bytes);
  place_constants(grid, global_addresses);
  grid.shared_bytes = kernel.function().shared_end + shape.dynamic_shared_bytes;
  grid.threads_per_block = static_cast<unsigned>(count_of(shape.block));
  grid.warps_per_block = (grid.threads_per_block + kLanes - 1) / kLanes;
  Tracer tracer;
  tracer.max_steps = options.trace.max_steps;
  if (tracer.max_steps > 0) grid.tracer = &tracer;
  Runner(grid).run();
  LaunchResult result;
  result.ok = !grid.failed;
  result.findings = std::move(grid.findings);
  result.lane_ops = grid.lane_ops;
  result.trace = finish_trace(tracer, *grid.program);
  std::map<std::pair<int, int>, LineCounts> lines;
  for (const auto& [location, counts] : grid.counts) {
    const Location& where = grid.program->locations[location];
    LineCounts& line = lines[{where.ptx_line, where.source_line}];
    line.ptx_line = where.ptx_line;
    line.source_line = where.source_line;
    if (const auto it = grid.program->files.find(where.file); it != grid.program->files.end())
      line.source_file = it->second;
    line.warp_ops += counts.warp_ops;
    line.lane_ops += counts.lane_ops;
    line.sectors += counts.sectors;
    line.ideal_sectors += counts.ideal_sectors;
    line.bank_conflicts += counts.bank_conflicts;
  }
  for (auto& [key, line] : lines) result.counts.push_back(std::move(line));
  return result;
}

}  // namespace gpk::sim
