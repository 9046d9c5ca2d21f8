// Completion events of a device, injected. An event marks the end of work submitted earlier.
#pragma once

#include <cstdint>

namespace gpk::runtime {

// Implementations are thread safe; several threads may poll and wait for one event. release() must
// be the last call.
class DeviceEvents {
 public:
  using EventId = std::uint64_t;  // 0: no event

  virtual ~DeviceEvents() = default;
  // True when the work before the event is done. Rethrows that work's failure.
  virtual bool poll(EventId event) = 0;
  // Blocks until poll() would return true; throws likewise.
  virtual void wait(EventId event) = 0;
  // The event will not be used again. Its work may still be running.
  virtual void release(EventId event) noexcept = 0;
};

}  // namespace gpk::runtime
