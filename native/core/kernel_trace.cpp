#include "core/kernel_trace.h"

#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/text.h"
#include "core/context.h"
#include "core/event_cache.h"
#include "core/memory.h"
#include "core/stream.h"
#include "core/trace_log.h"

namespace gpk::inline core {
namespace {

using EventId = EventCache::EventId;

// Kernels whose times have not been queried. Queries are expensive, hence batched; with too many
// pending, a launch waits for the oldest.
constexpr std::size_t kBatch = 256;
constexpr std::size_t kMaxPending = 8192;
// The driver returns elapsed times as float milliseconds: accurate to 0.1 us only while the two
// events are this close.
constexpr double kMaxFromAnchorNs = 1e9;

// The kernels of one device.
class KernelTrace {
 public:
  explicit KernelTrace(Context& context) : context_(context), events_(context, true) {
    // On an idle stream an event completes as it is recorded, which ties the two clocks together.
    const auto idle = Stream::create(context.device(), StreamPriority::kHigh);
    anchor_ = events_.record(idle->handle());
    events_.wait(anchor_);
    anchor_ns_ = static_cast<double>(trace_log().now_ns());
  }
  ~KernelTrace() {
    for (const Kernel& kernel : pending_) release(kernel);
    events_.release(anchor_);
  }
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  EventId record(const Stream& stream) { return events_.record(stream.handle()); }
  void release(EventId event) noexcept { events_.release(event); }

  void add(const char* name, double num_blocks, double num_threads, const Stream& stream,
           EventId start) {
    const TraceRecorder::TrackId track = track_of(stream);
    pending_.push_back({name, num_blocks, num_threads, track, start, 0});
    try {
      pending_.back().stop = record(stream);
    } catch (...) {
      pending_.pop_back();
      throw;
    }
  }
  void collect_some() {
    if (pending_.size() % kBatch == 0) collect(pending_.size() >= kMaxPending ? kBatch : 0);
  }

  // Collects completed kernels, waiting for at least `num_waited` of them.
  void collect(std::size_t num_waited) {
    for (std::size_t i = 0; !pending_.empty(); ++i) {
      const Kernel kernel = pending_.front();
      if (i < num_waited) {
        events_.wait(kernel.stop);
      } else if (!events_.poll(kernel.stop)) {
        return;
      }
      pending_.pop_front();
      write(kernel);
    }
  }
  [[nodiscard]] std::size_t num_pending() const noexcept { return pending_.size(); }

 private:
  struct Kernel {
    const char* name;
    double num_blocks;
    double num_threads;
    TraceRecorder::TrackId track;
    EventId start;
    EventId stop;
  };

  TraceRecorder::TrackId track_of(const Stream& stream) {
    const auto [place, is_new] = tracks_.try_emplace(stream.handle(), 0);
    if (is_new)
      place->second = trace_log().track(
          cat("kernels of ", to_string(context_.device()), ", stream ", tracks_.size()));
    return place->second;
  }

  void release(const Kernel& kernel) noexcept {
    events_.release(kernel.start);
    if (kernel.stop != 0) events_.release(kernel.stop);
  }

  void write(const Kernel& kernel) {
    const double from_anchor_ns = events_.elapsed_ns(anchor_, kernel.start);
    const double duration_ns = events_.elapsed_ns(kernel.start, kernel.stop);
    const double start_ns = anchor_ns_ + from_anchor_ns;
    TraceArg args[2];
    if (kernel.num_blocks > 0)
      args[0] = {"blocks", kernel.num_blocks}, args[1] = {"threads", kernel.num_threads};
    trace_log().span(TraceCategory::kKernel, kernel.name, kernel.track, std::llround(start_ns),
                     std::llround(duration_ns), args[0], args[1]);
    events_.release(kernel.stop);
    if (from_anchor_ns < kMaxFromAnchorNs) {
      events_.release(kernel.start);
      return;
    }
    events_.release(std::exchange(anchor_, kernel.start));
    anchor_ns_ = start_ns;
  }

  Context& context_;
  EventCache events_;
  EventId anchor_ = 0;
  double anchor_ns_ = 0.0;
  std::deque<Kernel> pending_;
  std::map<cu::Stream, TraceRecorder::TrackId> tracks_;
};

struct State {
  std::mutex mutex;
  std::uint64_t run = 0;  // counts starts and stops
  std::map<Context*, std::unique_ptr<KernelTrace>> devices;
};

State& state() {
  static auto* all = new State;  // launches continue during process exit
  return *all;
}

}  // namespace

void start_trace() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  trace_log().start();
  if (detail::g_tracing_kernels.load()) return;
  ++all.run;
  detail::g_tracing_kernels = true;
}

void stop_trace() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  detail::g_tracing_kernels = false;
  ++all.run;
  for (const auto& [context, trace] : all.devices) {
    try {
      trace->collect(trace->num_pending());
    } catch (...) {  // the device is lost: its last kernels have no times
    }
  }
  all.devices.clear();
  trace_log().stop();
}

void collect_kernel_trace() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  for (const auto& [context, trace] : all.devices) {
    try {
      trace->collect(0);
    } catch (...) {
    }
  }
}

void TracedKernel::begin(const char* name, const unsigned* grid, const unsigned* block,
                         Stream& stream) noexcept {
  try {
    if (stream.context() == nullptr || stream.capturing()) return;
    const RelaxedCaptureScope relaxed;  // another stream may be capturing
    State& all = state();
    const std::lock_guard lock(all.mutex);
    if (!detail::g_tracing_kernels.load()) return;
    auto& trace = all.devices[stream.context()];
    if (!trace) trace = std::make_unique<KernelTrace>(*stream.context());
    const auto product = [](const unsigned* v) {
      return v == nullptr ? 0.0 : static_cast<double>(v[0]) * v[1] * v[2];
    };
    num_blocks_ = product(grid);
    num_threads_ = product(block);
    name_ = name;
    stream_ = &stream;
    run_ = all.run;
    start_ = trace->record(stream);
  } catch (...) {
  }
}

void TracedKernel::end(bool submitted) noexcept {
  const EventId start = std::exchange(start_, 0);
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (run_ != all.run) {  // the trace was stopped, and its event cache destroyed
    driver().cuEventDestroy(reinterpret_cast<cu::Event>(start));
    return;
  }
  const auto found = all.devices.find(stream_->context());
  if (found == all.devices.end()) return;
  KernelTrace& trace = *found->second;
  try {
    const RelaxedCaptureScope relaxed;
    if (submitted) {
      trace.add(name_, num_blocks_, num_threads_, *stream_, start);
    } else {
      trace.release(start);
    }
  } catch (...) {
    trace.release(start);
    return;
  }
  try {
    trace.collect_some();
  } catch (...) {  // a lost device reports no times
  }
}

}  // namespace gpk::inline core
