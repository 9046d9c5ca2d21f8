// What the transfer engine needs from a device, injected.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/device_events.h"
#include "runtime/transfer/transfer.h"

namespace gpk::runtime {

// Each direction has a stream of its own; copies of one direction finish in the order they were
// started. Errors are thrown, of any std::exception type; the waiter gets the same exception.
// Called by one thread at a time per direction, by several at once over all directions; polls of
// events that transfers start after come from any thread.
class CopyDevice : public DeviceEvents {
 public:
  // Starts a copy on the direction's stream. Host memory is pinned and stays valid until the copy
  // is done.
  virtual void copy_async(TransferType type, std::uint64_t dst, std::uint64_t src,
                          std::size_t bytes) = 0;
  // An event after everything started on that stream so far.
  virtual EventId record(TransferType type) = 0;
  // Waits for everything started on that stream. Used when events fail.
  virtual void synchronize(TransferType type) = 0;
  // Passes a little time (some ten microseconds) when only events of others can be waited for.
  virtual void backoff() noexcept = 0;

  // True when all of this host memory is pinned, so that it can be copied from and to directly.
  [[nodiscard]] virtual bool is_pinned(const void* ptr, std::size_t bytes) = 0;
  // Pinned memory, aligned to 4096. Throws when there is none.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* ptr, std::size_t bytes) noexcept = 0;
};

}  // namespace gpk::runtime
