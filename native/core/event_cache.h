// A cache of driver events, addressed by id: creating one costs more than recording it.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/driver_api.h"

namespace gpk::inline core {

class Context;

// One per device. Thread safe. Throws CudaError when the work before the event has failed.
class EventCache {
 public:
  using EventId = std::uint64_t;  // never 0

  // With timing, elapsed_ns() works and recording costs a little more.
  EventCache(Context& context, bool timing) : context_(context), timing_(timing) {}
  // Events that were not released are leaked to the driver.
  ~EventCache();
  EventCache(const EventCache&) = delete;
  EventCache& operator=(const EventCache&) = delete;

  // An event after everything submitted to `stream` so far.
  EventId record(cu::Stream stream);
  // True when the work before the event is done.
  bool poll(EventId event);
  // Blocks until it is: a short spin, then the thread sleeps.
  void wait(EventId event);
  // Same, polling check_interrupt(), whose exception propagates.
  void wait_interruptibly(EventId event);
  void release(EventId event) noexcept;
  // Nanoseconds of GPU time between two completed events.
  double elapsed_ns(EventId start, EventId stop);

 private:
  bool spin(EventId event);

  Context& context_;
  const bool timing_;
  std::mutex mutex_;
  std::vector<cu::Event> free_;
};

}  // namespace gpk::inline core
