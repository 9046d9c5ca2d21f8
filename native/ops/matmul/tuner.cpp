#include "ops/matmul/tuner.h"

#include <algorithm>
#include <limits>

#include "core/context.h"
#include "core/error.h"
#include "core/event.h"
#include "core/graph.h"
#include "core/stream.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/decision.h"
#include "ops/matmul/engine_cublaslt.h"

namespace gpk::ops {
namespace {

constexpr double kRoundUs = 1000.0;  // about what one candidate takes in one round
constexpr int kRounds = 4;
constexpr int kMaxRuns = 64;
constexpr std::size_t kMaxCandidates = 12;
constexpr std::size_t kMaxCopies = 8;
constexpr float kHopeless = 2.5f;  // predicted to be so many times slower than the best
constexpr double kMargin = 0.99;

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

// The same values and strides in memory of its own.
Array moved(const Array& x, const char* op) {
  std::int64_t extent = 1;
  for (int d = 0; d < x.ndim(); ++d) extent += (x.shape()[d] - 1) * x.strides()[d];
  const Array room = Array::empty({extent}, x.dtype(), x.device(), op);
  copy_into(room, Array({extent}, {1}, x.dtype(), x.buffer(), x.offset_elems()), op);
  return Array(x.shape(), x.strides(), x.dtype(), room.buffer(), room.offset_elems());
}

bool can_move(const Array& x) {
  return x.size() > 0 && std::all_of(x.strides().begin(), x.strides().end(),
                                     [](std::int64_t step) { return step >= 0; });
}

// As many copies as it takes for the next one not to find its operands in the L2: layers of a model
// do not either. Their result is not the product's own, which a residual may be read from.
std::vector<Product> copies_of(const Product& product, const MatmulDesc& desc,
                               const Machine& machine, const char* op) {
  std::vector<Product> copies{product};
  if (can_move(product.c)) copies[0].c = moved(product.c, op);
  if (!can_move(product.a) || !can_move(product.b)) return copies;
  const double each = std::max(bytes_once(desc), 1.0);
  const double wanted = 2.0 * static_cast<double>(machine.l2_bytes) / each;
  try {
    while (copies.size() < kMaxCopies && static_cast<double>(copies.size()) < wanted) {
      Product next = copies[0];
      next.a = moved(product.a, op);
      next.b = moved(product.b, op);
      copies.push_back(std::move(next));
    }
  } catch (const OutOfMemory&) {  // fewer, then
  }
  return copies;
}

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

// `runs` products in a graph: what the host takes to launch them does not count.
std::unique_ptr<Graph> recorded(const std::vector<Product>& products, const MatmulDesc& desc,
                                const MatmulPlan& plan, std::size_t runs, const char* op) {
  auto graph = std::make_unique<Graph>(products[0].c.device());
  graph->begin_capture();
  try {
    for (std::size_t i = 0; i < runs; ++i)
      launch_plan(products[i % products.size()], desc, plan, op);
  } catch (...) {
    graph->abandon_capture();
    throw;
  }
  graph->end_capture();
  return graph;
}

void measure(std::vector<MeasuredPlan>& plans, const std::vector<Product>& products,
             const MatmulDesc& desc, const char* op) {
  struct Run {
    std::unique_ptr<Graph> graph;
    std::size_t runs;
  };
  std::vector<Run> all;
  for (MeasuredPlan& one : plans) {
    launch_plan(products[0], desc, one.plan, op);  // compiles, or is refused
    const auto runs = static_cast<std::size_t>(
        std::clamp(kRoundUs / std::max(1.0f, one.plan.predicted_us), 2.0, double{kMaxRuns}));
    all.push_back({nullptr, std::max(runs, products.size())});
    if (!cublaslt_refused(desc, one.plan))
      all.back().graph = recorded(products, desc, one.plan, all.back().runs, op);
    one.us = std::numeric_limits<double>::max();
  }
  Stopwatch watch(current_stream(products[0].c.device()));
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < plans.size(); ++i)
      if (all[i].graph)
        plans[i].us =
            std::min(plans[i].us, watch.us(*all[i].graph) / static_cast<double>(all[i].runs));
}

}  // namespace

std::vector<MeasuredPlan> tune_product(const Product& product, const char* op) {
  forbid_in_capture(op, "it measures");
  const Machine machine = machine_of(Context::get(product.c.device().index));
  DescFit fit = DescFit::kFits;
  const MatmulDesc desc = make_desc(product, &fit);
  if (fit != DescFit::kFits) return {};
  std::vector<MeasuredPlan> plans = candidates(desc, machine);
  measure(plans, copies_of(product, desc, machine, op), desc, op);
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
