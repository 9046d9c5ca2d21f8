// The device interface of the memory pool. The driver implements it in production, host memory in
// tests and in simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpk::runtime {

// Failures: a call that finds no memory returns 0, nullptr or false and changes nothing. Every
// other failure is an exception, after which the call had no effect. Calls marked noexcept cannot
// fail: on a lost device there is nothing to release.
//
// The pool serialises its calls, from any thread, except wait(), during which others proceed. It
// may call while a graph capture is in progress in the calling thread.
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
  // Free memory as reported by the driver: for messages, and before creating many chunks at once.
  [[nodiscard]] virtual std::size_t free_bytes() noexcept = 0;

  // Address space, aligned to `alignment_bytes` (a power of two).
  virtual Address reserve(std::size_t bytes, std::size_t alignment_bytes) = 0;
  virtual void release(Address address, std::size_t bytes) noexcept = 0;
  // Creates one physical chunk.
  virtual Handle create(std::size_t bytes) = 0;
  virtual void destroy(Handle handle) noexcept = 0;
  // Maps consecutive chunks of `chunk_bytes` each and makes the whole range accessible. All or
  // nothing. False: the driver has no memory for its page tables.
  virtual bool map(Address address, std::span<const Handle> handles, std::size_t chunk_bytes) = 0;
  // Whole chunks only, none of them in use by the device.
  virtual void unmap(Address address, std::size_t bytes) noexcept = 0;

  // Instead of the six above where can_map() is false; aligned to 512.
  virtual Address allocate(std::size_t bytes) = 0;
  virtual void free(Address address, std::size_t bytes) noexcept = 0;

  // An event after all work submitted to the stream so far.
  virtual Event record(Stream stream) = 0;
  [[nodiscard]] virtual bool poll(Event event) = 0;
  virtual void wait(Event event) = 0;
  // Later work of `stream` starts after the event.
  virtual void stream_wait(Stream stream, Event event) = 0;
  virtual void destroy_event(Event event) noexcept = 0;

  // A stream for copies that are not ordered by a user's stream.
  [[nodiscard]] virtual Stream copy_stream() = 0;
  // Asynchronous; the host memory comes from allocate_host().
  virtual void copy_to_host(void* to, Address from, std::size_t bytes, Stream stream) = 0;
  virtual void copy_to_device(Address to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void free_host(void* data, std::size_t bytes) noexcept = 0;
};

}  // namespace gpk::runtime
