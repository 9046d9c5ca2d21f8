// What the memory pool needs of a device. The driver stands behind it in production, host memory in
// tests and in simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpk::runtime {

// Failures: a call that finds no memory answers 0, nullptr or false and changes nothing. Every
// other failure is an exception, after which the call counts as not made. Calls marked noexcept
// cannot fail: a lost device has nothing left to give back.
//
// The pool makes its calls one at a time, from any thread, but for wait(), during which others go
// on. It may do so while a graph capture is going on in the calling thread.
class PoolDevice {
 public:
  using Address = std::uint64_t;  // of device memory, 0: none
  using Handle = std::uint64_t;   // of a physical chunk, 0: none
  using Stream = std::uint64_t;   // opaque; every value but ~0 is a stream
  using Event = std::uint64_t;    // 0: none

  PoolDevice() = default;
  virtual ~PoolDevice() = default;
  PoolDevice(const PoolDevice&) = delete;
  PoolDevice& operator=(const PoolDevice&) = delete;

  // False: there is no virtual memory management, memory comes from allocate() and free().
  [[nodiscard]] virtual bool can_map() const noexcept = 0;
  // Of physical memory; a power of two, at least 512.
  [[nodiscard]] virtual std::size_t granularity_bytes() const noexcept = 0;
  // What the driver says is free: for messages, and before many chunks are created at once.
  [[nodiscard]] virtual std::size_t free_bytes() noexcept = 0;

  // Address space, aligned to `alignment_bytes` (a power of two).
  virtual Address reserve(std::size_t bytes, std::size_t alignment_bytes) = 0;
  virtual void release(Address address, std::size_t bytes) noexcept = 0;
  // One piece of physical memory.
  virtual Handle create(std::size_t bytes) = 0;
  virtual void destroy(Handle handle) noexcept = 0;
  // Maps pieces of `chunk_bytes` each, one behind the other, and makes the whole range accessible.
  // All or nothing. False: the driver has no memory for its tables.
  virtual bool map(Address address, std::span<const Handle> handles, std::size_t chunk_bytes) = 0;
  // Only whole pieces, none of them in use by the device.
  virtual void unmap(Address address, std::size_t bytes) noexcept = 0;

  // Instead of the six above where can_map() is false; aligned to 512.
  virtual Address allocate(std::size_t bytes) = 0;
  virtual void free(Address address, std::size_t bytes) noexcept = 0;

  // A point behind all work submitted to the stream so far.
  virtual Event record(Stream stream) = 0;
  [[nodiscard]] virtual bool poll(Event event) = 0;
  virtual void wait(Event event) = 0;
  // Later work of `stream` starts after the event.
  virtual void stream_wait(Stream stream, Event event) = 0;
  virtual void destroy_event(Event event) noexcept = 0;

  // The stream for copies that no user's stream orders.
  [[nodiscard]] virtual Stream copy_stream() = 0;
  // Return before the copy is done; the host memory comes from allocate_host().
  virtual void copy_to_host(void* to, Address from, std::size_t bytes, Stream stream) = 0;
  virtual void copy_to_device(Address to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void free_host(void* data, std::size_t bytes) noexcept = 0;
};

}  // namespace gpk::runtime
