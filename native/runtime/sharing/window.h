// The bounded window of launches in flight on a best-effort stream, which limits how long a
// foreground launch waits behind it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/clock.h"
#include "runtime/device_events.h"

namespace gpk::runtime {

// Whether foreground work is running; shared by all windows of a device. Thread safe.
class ForegroundActivity {
 public:
  void begin() noexcept { num_active_.fetch_add(1, std::memory_order_relaxed); }
  void end(std::int64_t now_ns) noexcept {
    last_ns_.store(now_ns, std::memory_order_relaxed);
    num_active_.fetch_sub(1, std::memory_order_relaxed);
  }
  // True from begin() until `quiet_ns` after the last end().
  [[nodiscard]] bool active(std::int64_t now_ns, std::int64_t quiet_ns) const noexcept {
    return num_active_.load(std::memory_order_relaxed) > 0 ||
           now_ns - last_ns_.load(std::memory_order_relaxed) < quiet_ns;
  }

 private:
  static constexpr std::int64_t kLongAgo = INT64_MIN / 2;
  std::atomic<std::int64_t> num_active_{0};
  std::atomic<std::int64_t> last_ns_{kLongAgo};
};

// Events of the window's stream, injected.
class StreamEvents : public DeviceEvents {
 public:
  // An event after everything submitted to the stream so far.
  virtual EventId record() = 0;
};

// Thread safe. Acquire a slot before each launch:
//   InFlightWindow::Slot slot = window.acquire();
//   launch(...);
//   slot.launched();
// A slot destroyed without launched() is released: nothing was launched. A thread holds at most one
// slot.
class InFlightWindow {
 public:
  struct Options {
    std::size_t max_in_flight = 16;
    std::size_t min_in_flight = 2;  // while foreground work is running
    std::int64_t quiet_ns = 200'000;
  };

  struct Stats {
    std::size_t limit = 0;          // now
    std::size_t num_in_flight = 0;  // now, including acquired slots
    std::size_t max_in_flight = 0;  // high-water mark
    std::uint64_t num_launches = 0;
    std::uint64_t num_waits = 0;   // launches that found the window full
    std::uint64_t num_shrunk = 0;  // launches under the smaller limit
    std::int64_t wait_ns = 0;
    std::int64_t max_wait_ns = 0;
  };

  class Slot {
   public:
    explicit Slot(InFlightWindow& window) : window_(&window) {}
    Slot(Slot&& other) noexcept : window_(other.window_) { other.window_ = nullptr; }
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (window_ != nullptr) window_->give_back();
    }
    // Records the event that ends the launch. If that throws, the launch is not counted.
    void launched();

   private:
    InFlightWindow* window_;
  };

  // 1 <= min_in_flight <= max_in_flight, quiet_ns >= 0; kValue otherwise. The other arguments
  // outlive the window.
  InFlightWindow(StreamEvents& events, const ForegroundActivity& foreground, const Clock& clock,
                 Options options);
  InFlightWindow(StreamEvents& events, const ForegroundActivity& foreground, const Clock& clock)
      : InFlightWindow(events, foreground, clock, Options{}) {}
  // Releases the events; launches continue.
  ~InFlightWindow();
  InFlightWindow(const InFlightWindow&) = delete;
  InFlightWindow& operator=(const InFlightWindow&) = delete;

  // Blocks the host only while the window is full. Rethrows the failure of the launch it waited
  // for, which has then left the window.
  [[nodiscard]] Slot acquire();
  // Blocks until nothing is in flight. Rethrows likewise, after all have left.
  void drain();
  // For later launches; clamped between min_in_flight and the constructor's value.
  void set_max_in_flight(std::size_t max_in_flight) noexcept;

  [[nodiscard]] std::size_t limit() const;  // now
  [[nodiscard]] std::uint64_t num_waits() const;
  // Polls the device.
  [[nodiscard]] Stats stats() const;

 private:
  friend class Slot;
  using Lock = std::unique_lock<std::mutex>;
  void retire_done();
  void wait_for_oldest(Lock& lock);
  void give_back();

  StreamEvents& events_;
  const ForegroundActivity& foreground_;
  const Clock& clock_;
  const Options options_;
  std::atomic<std::size_t> max_in_flight_;  // now, while no foreground work is running
  mutable std::mutex mutex_;
  std::condition_variable left_;                // signalled when something leaves the window
  std::deque<DeviceEvents::EventId> launched_;  // oldest first
  // Launches in flight, acquired slots, and events some thread is waiting for.
  std::size_t num_in_flight_ = 0;
  Stats stats_;
};

}  // namespace gpk::runtime
