#include "ops/matmul/tuner.h"

#include <algorithm>

#include "core/context.h"
#include "core/event.h"
#include "core/graph.h"
#include "core/stream.h"
#include "ops/matmul/decision.h"
#include "ops/matmul/engine_cublaslt.h"

namespace gpk::ops {
namespace {

constexpr double kRoundUs = 2000.0;  // about what one candidate takes in one round
constexpr int kRounds = 3;
constexpr int kMaxRuns = 200;
constexpr std::size_t kMaxCandidates = 12;
constexpr float kHopeless = 2.5f;  // predicted to be so many times slower than the best
constexpr double kMargin = 0.99;

class Stopwatch {
 public:
  explicit Stopwatch(const std::shared_ptr<Stream>& stream)
      : stream_(stream),
        start_(Event::create(stream->device(), {})),
        stop_(Event::create(stream->device(), {})) {}

  template <class Work>
  double us(int runs, const Work& work) {
    start_->record(*stream_);
    for (int i = 0; i < runs; ++i) work();
    stop_->record(*stream_);
    stop_->synchronize();
    return Event::elapsed_ms(*start_, *stop_) * 1000.0 / runs;
  }

 private:
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Event> start_, stop_;
};

// Cheapest first; of our own always the first.
std::vector<MeasuredPlan> candidates(const MatmulDesc& desc, const Machine& machine) {
  std::vector<MeasuredPlan> found;
  float best_us = 0.0f;
  for (const MatmulPlan& plan : all_candidates(desc, machine)) {
    const bool ours = plan.engine != MatmulEngine::cublaslt;
    if (ours && best_us == 0.0f) best_us = plan.predicted_us;
    if (ours && (found.size() >= kMaxCandidates || plan.predicted_us > kHopeless * best_us))
      continue;
    found.push_back({plan, 0.0});
  }
  return found;
}

void measure(std::vector<MeasuredPlan>& plans, const Product& product, const MatmulDesc& desc,
             const char* op) {
  Stopwatch watch(current_stream(product.c.device()));
  std::vector<int> runs;
  for (MeasuredPlan& one : plans) {
    launch_plan(product, desc, one.plan, op);  // compiles
    const double first = watch.us(2, [&] { launch_plan(product, desc, one.plan, op); });
    runs.push_back(std::clamp(static_cast<int>(kRoundUs / std::max(first, 1.0)), 2, kMaxRuns));
    one.us = first;
  }
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < plans.size(); ++i)
      plans[i].us = std::min(
          plans[i].us, watch.us(runs[i], [&] { launch_plan(product, desc, plans[i].plan, op); }));
}

}  // namespace

std::vector<MeasuredPlan> tune_product(const Product& product, const char* op) {
  forbid_in_capture(op, "it measures");
  const Machine machine = machine_of(Context::get(product.c.device().index));
  DescFit fit = DescFit::kFits;
  const MatmulDesc desc = make_desc(product, &fit);
  if (fit != DescFit::kFits) return {};
  std::vector<MeasuredPlan> plans = candidates(desc, machine);
  measure(plans, product, desc, op);
  std::erase_if(plans, [&](const MeasuredPlan& one) { return cublaslt_refused(desc, one.plan); });
  std::stable_sort(plans.begin(), plans.end(),
                   [](const MeasuredPlan& x, const MeasuredPlan& y) { return x.us < y.us; });
  const auto native = std::find_if(plans.begin(), plans.end(), [](const MeasuredPlan& one) {
    return one.plan.engine != MatmulEngine::cublaslt;
  });
  const bool keep_native = native != plans.end() && native->us * kMargin <= plans.front().us;
  const MeasuredPlan& best = keep_native ? *native : plans.front();
  store_tuned(desc, machine, {best.plan, best.us, native == plans.end() ? 0.0 : native->us});
  launch_plan(product, desc, best.plan, op);
  return plans;
}

}  // namespace gpk::ops
