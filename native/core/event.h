// Events: points in a stream's work that can be waited for and timed.
#pragma once

#include <chrono>
#include <memory>

#include "core/device.h"
#include "core/driver_api.h"

namespace gpk::inline core {

class Context;
class Stream;

class Event {
 public:
  struct Options {
    bool timing = true;          // elapsed_ms works
    bool blocking_sync = false;  // synchronize() sleeps instead of spinning
  };
  static std::shared_ptr<Event> create(Device device, Options options);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Stream& stream);
  void synchronize();
  // True when all work before the last record() is done; true if never recorded.
  bool query();

  // Milliseconds of GPU time between two recorded, finished events (host time on the CPU).
  // Throws Error when one of them is not recorded, not finished or has no timing.
  static double elapsed_ms(const Event& start, const Event& stop);

  [[nodiscard]] cu::Event handle() const noexcept { return handle_; }
  [[nodiscard]] Device device() const noexcept { return device_; }

 private:
  Event(Device device, Context* context, cu::Event handle, bool timing);

  Device device_;
  Context* context_;
  cu::Event handle_;
  bool timing_;
  bool recorded_ = false;
  std::chrono::steady_clock::time_point host_time_;
};

}  // namespace gpk::inline core
