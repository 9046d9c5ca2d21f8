#include "plan/measure.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "core/event.h"
#include "core/graph.h"
#include "core/stream.h"

namespace gpk::plan {
namespace {

constexpr double kRoundUs = 1000.0;  // roughly the time one candidate takes per round
constexpr int kRounds = 4;
constexpr int kMaxRuns = 64;

class Stopwatch {
 public:
  explicit Stopwatch(const std::shared_ptr<Stream>& stream)
      : stream_(stream),
        start_(Event::create(stream->device(), {})),
        stop_(Event::create(stream->device(), {})) {}

  double us(Graph& graph) {
    start_->record(*stream_);
    graph.replay(stream_);
    stop_->record(*stream_);
    stop_->synchronize();
    return Event::elapsed_ms(*start_, *stop_) * 1000.0;
  }

 private:
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Event> start_, stop_;
};

std::unique_ptr<Graph> recorded(const Trial& trial, std::size_t runs, Device device) {
  auto graph = std::make_unique<Graph>(device);
  graph->begin_capture();
  try {
    for (std::size_t run = 0; run < runs; ++run) trial.launch(run);
  } catch (...) {
    graph->abandon_capture();
    throw;
  }
  graph->end_capture();
  return graph;
}

}  // namespace

void measure(std::span<Trial> trials, std::size_t least_runs, Device device) {
  struct Prepared {
    std::unique_ptr<Graph> graph;
    std::size_t runs;
  };
  std::vector<Prepared> prepared;
  for (Trial& trial : trials) {
    trial.launch(0);  // compiles
    const auto runs = static_cast<std::size_t>(
        std::clamp(kRoundUs / std::max(1.0, trial.predicted_us), 2.0, double{kMaxRuns}));
    prepared.push_back({nullptr, std::max(runs, least_runs)});
    if (!trial.usable || trial.usable())
      prepared.back().graph = recorded(trial, prepared.back().runs, device);
    trial.us = std::numeric_limits<double>::max();
  }
  Stopwatch watch(current_stream(device));
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < trials.size(); ++i)
      if (prepared[i].graph)
        trials[i].us = std::min(
            trials[i].us, watch.us(*prepared[i].graph) / static_cast<double>(prepared[i].runs));
}

}  // namespace gpk::plan
