#include <algorithm>
#include <bit>

#include "sim/checks.h"
#include "sim/machine.h"
#include "sim/mbarrier.h"
#include "sim/races.h"
#include "sim/undefined.h"

namespace gpk::sim {
namespace {

constexpr std::uint64_t kQuantum = 200000;  // operations of a warp before the next one's turn
constexpr std::uint64_t kShortSlice =
    4096;  // a polling warp that did no more than that did nothing
constexpr unsigned kQuietRounds = 64;

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

struct Round {
  bool ran = false;      // some warp executed something
  bool busy = false;     // and did more than poll
  bool outside = false;  // somebody polls memory that another cluster may write
  bool alive = false;
};

Round run_round(Cluster& cluster, bool shuffled) {
  Round round;
  if (shuffled)
    for (std::size_t i = cluster.order.size(); i > 1; --i)
      std::swap(cluster.order[i - 1], cluster.order[next_random(cluster.rng) % i]);
  for (Warp* warp : cluster.order) {
    if (finished(*warp)) continue;
    if (warp->grid->stop.load(std::memory_order_relaxed)) return round;
    const std::uint64_t before = warp->warp_ops;
    const std::uint64_t events = cluster.events;
    // A short slice may be too short to tell polling: polls count until one has none.
    const std::uint32_t polls = shuffled ? warp->polls : 0;
    warp->polls = polls;
    std::uint64_t budget = shuffled ? 1 + next_random(cluster.rng) % 400 : kQuantum;
    if (const std::uint64_t limit = warp->grid->options->max_warp_ops; limit != 0)
      budget = std::min(budget, limit);
    warp->running_now = true;  // left so by a fault
    run_warp(*warp, budget);
    const std::uint64_t limit = warp->grid->options->max_warp_ops;
    if (limit != 0 && warp->warp_ops > limit && warp->mask != 0)
      throw Fault{"timeout", static_cast<unsigned>(std::countr_zero(warp->mask)),
                  "a warp has executed " + std::to_string(warp->warp_ops) + " operations"};
    warp->running_now = false;
    const std::uint64_t did = warp->warp_ops - before;
    if (warp->polls == polls || cluster.events != events) warp->polls = 0;
    round.ran = round.ran || did != 0;
    round.alive = round.alive || !finished(*warp);
    if (did != 0 && (warp->spin == kNoSpin || did > kShortSlice || cluster.events != events))
      round.busy = true;
    if (warp->spin == kSpinMemory) round.outside = true;
  }
  return round;
}

}  // namespace

Warp::Warp() = default;
Warp::~Warp() = default;
Block::Block() = default;
Block::~Block() = default;
Cluster::Cluster() = default;
Cluster::~Cluster() = default;
Grid::Grid() = default;
Grid::~Grid() = default;

Progress run_cluster(Cluster& cluster) {
  const Grid& grid = *cluster.blocks[0]->grid;
  const bool shuffled = grid.options->seed != 0;
  unsigned quiet = 0;
  for (;;) {
    const Round round = run_round(cluster, shuffled);
    if (grid.stop.load(std::memory_order_relaxed) || !round.alive) return Progress::kDone;
    if (!round.ran) return Progress::kDeadlock;
    if (round.busy) {
      quiet = 0;
      continue;
    }
    if (++quiet >= kQuietRounds) return round.outside ? Progress::kStalled : Progress::kDeadlock;
  }
}

std::string waiting_text(const Cluster& cluster) {
  std::string text;
  unsigned listed = 0;
  for (const auto& block : cluster.blocks)
    for (const auto& warp : block->warps) {
      std::vector<Split> splits = warp->splits;
      if (warp->mask != 0) {
        Split running;
        running.frame = warp->frame;
        running.pc = warp->pc;
        running.mask = warp->mask;
        splits.push_back(running);
      }
      for (const Split& split : splits) {
        if (++listed > 12) continue;
        const Program& program = *block->grid->program;
        const auto& code = split.frame->function->code;
        const Location& location =
            program.locations[code[std::min<std::size_t>(split.pc, code.size() - 1)].location];
        // A loop around try_wait: the wait that failed is not far.
        const bool on_mbarrier =
            split.state == Split::State::kReady && warp->spin == kSpinMbarrier && warp->waits_at;
        const std::string what =
            on_mbarrier                               ? mbarrier_waiting_text(*warp)
            : split.state == Split::State::kBarrier   ? "waits at barrier "
            : split.state == Split::State::kCluster   ? "waits at the cluster barrier"
            : split.state == Split::State::kWarpgroup ? "waits for its warpgroup"
            : split.state == Split::State::kWarpSync  ? "waits for other lanes"
                                                      : "polls";
        text += "; block " + std::to_string(block->index.x) + " warp " +
                std::to_string(warp->index) + " lanes " + hex(split.mask) + " " + what;
        if (split.state == Split::State::kBarrier) text += std::to_string(split.barrier);
        text += " at PTX line " + std::to_string(location.ptx_line);
        if (location.source_line != 0)
          text += " (source line " + std::to_string(location.source_line) + ")";
      }
    }
  if (listed > 12) text += "; and " + std::to_string(listed - 12) + " more";
  return text;
}

}  // namespace gpk::sim
