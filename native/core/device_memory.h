// What core asks of whoever manages the memory of a device: buffers, and private memory for graph
// captures. The pool implements it (device/device_pool.h); core itself does not know the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/device.h"

namespace gpk::inline core {

class Buffer;
class Context;
class Stream;

// The private memory of one graph. What is freed in it is used again within it only.
class CaptureMemory {
 public:
  virtual ~CaptureMemory() = default;
  // Never 0, never used twice.
  [[nodiscard]] virtual std::uint64_t id() const noexcept = 0;
  // Gives it back after the work submitted to `streams` so far. The last call.
  virtual void close(std::span<const std::shared_ptr<Stream>> streams) = 0;
};

// Of one device. Thread safe.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // For use on the calling thread's current stream; `bytes` > 0. Contents are undefined. Throws
  // OutOfMemory.
  virtual std::shared_ptr<Buffer> allocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<CaptureMemory> open_capture() = 0;
  // The stream is about to be destroyed or captured; its handle may come back as another's.
  virtual void forget_stream(const Stream& stream) = 0;
};

// Made at first use; lives as long as the process. Throws GpuUnavailable / CudaError.
DeviceMemory& device_memory(Device device);

// For Context and for the CPU; defined with the pool.
std::unique_ptr<DeviceMemory> make_device_memory(Context& context);
std::unique_ptr<DeviceMemory> make_host_device_memory();

}  // namespace gpk::inline core
