// Driver events by number, used again and again: making one costs more than recording it.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/driver_api.h"

namespace gpk::inline core {

class Context;

// Of one device. Thread safe. Errors are CudaError: what the work before the event failed with.
class EventCache {
 public:
  using EventId = std::uint64_t;  // never 0

  // With timing, elapsed_ns() works and recording costs a little more.
  EventCache(Context& context, bool timing) : context_(context), timing_(timing) {}
  // Events that were not released are the driver's for ever.
  ~EventCache();
  EventCache(const EventCache&) = delete;
  EventCache& operator=(const EventCache&) = delete;

  // An event after everything submitted to `stream` so far.
  EventId record(cu::Stream stream);
  // True when the work before the event is done.
  bool poll(EventId event);
  // Returns when it is: a short spin, then the thread sleeps.
  void wait(EventId event);
  // The same, and check_interrupt() is asked now and then, whose exception passes.
  void wait_interruptibly(EventId event);
  void release(EventId event) noexcept;
  // Nanoseconds of GPU time between two events that are done.
  double elapsed_ns(EventId start, EventId stop);

 private:
  bool spin(EventId event);

  Context& context_;
  const bool timing_;
  std::mutex mutex_;
  std::vector<cu::Event> free_;
};

}  // namespace gpk::inline core
