// The gate of a stream that is in a class (of a partition or a task), or that limit_launches() was
// called for. It counts, and waits on the host; what has been submitted is never taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "core/driver_api.h"
#include "core/event_cache.h"
#include "core/gated_work.h"
#include "device/compute_pacer.h"
#include "device/foreground.h"
#include "runtime/sharing/window.h"

namespace gpk::inline core {
class Context;
}

namespace gpk::device {

// Of one stream. Thread safe. Its waits need no lock and no interpreter, only the GPU and time to
// go on, so they always end; check_interrupt() is asked meanwhile.
class LaunchGate final : public SubmissionGate {
 public:
  struct Options {
    std::size_t max_in_flight = 0;  // pieces of work on the device; 0: no bound
    // It waits while foreground work is on the device (at most max_hold_ns for one launch), and
    // keeps what it has in flight short: about window_ns of work, one piece at least.
    bool yields = false;
    bool in_foreground = false;  // others yield to its work
    std::int64_t quiet_ns = 100'000;
    std::int64_t max_hold_ns = 20'000'000;
    std::int64_t window_ns = 100'000;
    // About what a slice of a long kernel of ours may take; 0: kernels are not cut.
    std::int64_t slice_ns = 0;
    std::shared_ptr<Foreground> foreground;  // needed where it yields or is in the foreground
    std::shared_ptr<ComputePacer> pacer;     // null: not paced
    ComputePacer::MemberId member = 0;
  };
  struct Stats {
    std::uint64_t num_passed = 0;
    std::int64_t last_pass_ns = -1;  // on the steady clock; -1: none yet
    std::uint64_t num_held = 0;      // that waited for the foreground
    std::int64_t held_ns = 0;
    runtime::InFlightWindow::Stats window;  // zeros where there is none
  };

  // `stream` outlives the gate.
  LaunchGate(Context& context, cu::Stream stream, Options options);
  ~LaunchGate() override;
  LaunchGate(const LaunchGate&) = delete;
  LaunchGate& operator=(const LaunchGate&) = delete;

  std::unique_ptr<Pass> enter() override;
  [[nodiscard]] std::int64_t slice_ns() const noexcept override { return options_.slice_ns; }
  // For later launches, up to the `max_in_flight` it was made with; 0: that.
  void set_limit(std::size_t max_in_flight) noexcept;
  [[nodiscard]] Stats stats() const;
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] Device device() const noexcept;
  [[nodiscard]] cu::Stream stream() const noexcept { return stream_; }

 private:
  class GatePass;
  class Events;

  void hold();
  void adapt(bool waited, std::int64_t now_ns);

  Context& context_;
  const cu::Stream stream_;
  const Options options_;
  std::shared_ptr<Foreground::Source> source_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<runtime::InFlightWindow> window_;
  mutable std::mutex mutex_;
  Stats stats_;
  std::int64_t last_pass_ns_ = -1;
  double mean_ns_ = 0.0;  // of one piece of work, by how fast they follow one another
};

// Gives `stream` a gate that lets at most so many pieces of work be on the device; 0: it only
// counts. Again: another limit. The first call comes before other threads use the stream. Nothing
// on the CPU, where work is done when the call returns. Throws InvalidArgument for streams of
// partitions, which have their own limits, and for the default stream, which everybody shares.
void limit_launches(Stream& stream, std::size_t max_in_flight);
inline constexpr std::size_t kMaxLaunchLimit = 65536;

// What the gates of a device's streams have counted, by stream.
struct GateReport {
  std::uintptr_t stream = 0;
  LaunchGate::Stats stats;
};
std::vector<GateReport> report_gates(Device device);

}  // namespace gpk::device
