#include "device/launch_gate.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "core/context.h"
#include "core/interrupt.h"
#include "core/stream_tenant.h"
#include "device/steady_clock.h"

namespace gpk::device {
namespace {

constexpr std::size_t kMinInFlight = 1;
constexpr double kMeanWeight = 0.25;
constexpr auto kHoldNap = std::chrono::microseconds(10);

const runtime::ForegroundActivity& nobody() {
  static const runtime::ForegroundActivity activity;
  return activity;
}

// Every gate there is. Not touched by launches.
struct Registry {
  std::mutex mutex;
  std::vector<const LaunchGate*> gates;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed
  return *instance;
}

}  // namespace

class LaunchGate::Events final : public runtime::StreamEvents {
 public:
  Events(Context& context, cu::Stream stream) : cache_(context, false), stream_(stream) {}
  EventId record() override { return cache_.record(stream_); }
  bool poll(EventId event) override { return cache_.poll(event); }
  void wait(EventId event) override { cache_.wait_interruptibly(event); }
  void release(EventId event) noexcept override { cache_.release(event); }

 private:
  EventCache cache_;
  const cu::Stream stream_;
};

LaunchGate::LaunchGate(Context& context, cu::Stream stream, Options options)
    : context_(context), stream_(stream), options_(std::move(options)) {
  {
    const std::lock_guard lock(registry().mutex);
    registry().gates.push_back(this);
  }
  if (options_.in_foreground) source_ = options_.foreground->add();
  if (options_.yields) options_.foreground->add_yielding(1);
  if (options_.max_in_flight == 0) return;
  events_ = std::make_unique<Events>(context, stream);
  const std::size_t smallest = std::min(kMinInFlight, options_.max_in_flight);
  window_ = std::make_unique<runtime::InFlightWindow>(
      *events_, options_.yields ? options_.foreground->activity() : nobody(), steady_clock(),
      runtime::InFlightWindow::Options{.max_in_flight = options_.max_in_flight,
                                       .min_in_flight = smallest,
                                       .quiet_ns = options_.quiet_ns});
  if (options_.yields) window_->set_max_in_flight(smallest);  // until it is known how long work is
}

LaunchGate::~LaunchGate() {
  {
    const std::lock_guard lock(registry().mutex);
    std::erase(registry().gates, this);
  }
  if (options_.yields) options_.foreground->add_yielding(-1);
}

void LaunchGate::hold() {
  const std::int64_t start_ns = steady_clock().now_ns();
  std::int64_t now_ns = start_ns;
  while (options_.foreground->active(now_ns, options_.quiet_ns) &&
         now_ns - start_ns < options_.max_hold_ns) {
    check_interrupt();
    std::this_thread::sleep_for(kHoldNap);
    now_ns = steady_clock().now_ns();
  }
  if (now_ns == start_ns) return;
  const std::lock_guard lock(mutex_);
  ++stats_.num_held;
  stats_.held_ns += now_ns - start_ns;
  last_pass_ns_ = -1;  // the time since then says nothing about the work
}

// While the window is full, launches follow one another as fast as the work is done.
void LaunchGate::adapt(bool waited, std::int64_t now_ns) {
  std::size_t limit = 0;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.num_passed;
    stats_.last_pass_ns = now_ns;
    const std::int64_t last_ns = std::exchange(last_pass_ns_, now_ns);
    if (!options_.yields || !window_ || last_ns < 0) return;
    if (!waited) return;  // there was room: the work may take any time
    const auto gap_ns = static_cast<double>(now_ns - last_ns);
    mean_ns_ = mean_ns_ == 0.0 ? gap_ns : mean_ns_ + kMeanWeight * (gap_ns - mean_ns_);
    const double fit = static_cast<double>(options_.window_ns) / std::max(mean_ns_, 1.0);
    limit = static_cast<std::size_t>(std::clamp(fit, static_cast<double>(kMinInFlight),
                                                static_cast<double>(options_.max_in_flight)));
  }
  window_->set_max_in_flight(limit);
}

Device LaunchGate::device() const noexcept { return context_.device(); }

void LaunchGate::set_limit(std::size_t max_in_flight) noexcept {
  if (!window_) return;
  window_->set_max_in_flight(max_in_flight == 0 ? options_.max_in_flight : max_in_flight);
}

LaunchGate::Stats LaunchGate::stats() const {
  Stats now;
  {
    const std::lock_guard lock(mutex_);
    now = stats_;
  }
  if (window_) now.window = window_->stats();
  return now;
}

// What one piece of work holds from before its submission until after.
class LaunchGate::GatePass final : public Pass {
 public:
  explicit GatePass(LaunchGate& gate) : gate_(gate) {
    if (gate.options_.yields) gate.hold();
    if (gate.window_) {
      const std::uint64_t waits = gate.window_->num_waits();
      slot_.emplace(gate.window_->acquire());
      gate.adapt(gate.window_->num_waits() != waits, steady_clock().now_ns());
    } else {
      gate.adapt(false, steady_clock().now_ns());
    }
    if (gate.options_.pacer)
      piece_ = gate.options_.pacer->begin(gate.options_.member, gate.stream_);
    if (gate.source_) gate.source_->begin();
  }

  ~GatePass() override {
    if (gate_.source_) gate_.source_->end();
    if (!submitted_ && piece_.start != 0) gate_.options_.pacer->abandon(piece_);
  }

  GatePass(const GatePass&) = delete;
  GatePass& operator=(const GatePass&) = delete;

  void submitted() override {
    submitted_ = true;
    if (gate_.source_) gate_.source_->submitted(gate_.stream_);
    if (piece_.start != 0) gate_.options_.pacer->submitted(piece_, gate_.stream_);
    if (slot_) slot_->launched();
  }

 private:
  LaunchGate& gate_;
  std::optional<runtime::InFlightWindow::Slot> slot_;
  ComputePacer::Piece piece_;
  bool submitted_ = false;
};

std::unique_ptr<SubmissionGate::Pass> LaunchGate::enter() {
  return std::make_unique<GatePass>(*this);
}

void limit_launches(Stream& stream, std::size_t max_in_flight) {
  if (stream.context() == nullptr) return;
  if (stream.handle() == nullptr)
    throw InvalidArgument(
        "dispatch.limit: the default stream has no limit of its own, expected another stream");
  const StreamTenant* tenant = stream.tenant();
  if (tenant != nullptr && tenant->owner)
    throw InvalidArgument(
        "dispatch.limit: the stream belongs to a partition or a task, which limits its launches");
  if (tenant == nullptr) {
    LaunchGate::Options options;
    options.max_in_flight = kMaxLaunchLimit;
    auto own = std::make_unique<StreamTenant>();
    own->gate = std::make_unique<LaunchGate>(*stream.context(), stream.handle(), options);
    stream.set_tenant(std::move(own));
  }
  static_cast<LaunchGate*>(stream.gate())->set_limit(max_in_flight);  // there is no other kind
}

std::vector<GateReport> report_gates(Device device) {
  std::vector<GateReport> reports;
  const std::lock_guard lock(registry().mutex);
  for (const LaunchGate* gate : registry().gates)
    if (gate->device() == device)
      reports.push_back({reinterpret_cast<std::uintptr_t>(gate->stream()), gate->stats()});
  return reports;
}

}  // namespace gpk::device
