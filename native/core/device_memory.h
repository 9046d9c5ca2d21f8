// The interface core requires from a device's memory manager: buffers, and private memory for graph
// captures. The pool implements it (device/device_pool.h); core does not depend on the pool.
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

// The private memory of one graph. Blocks freed in it are reused only within it.
class CaptureMemory {
 public:
  virtual ~CaptureMemory() = default;
  // Never 0, never reused.
  [[nodiscard]] virtual std::uint64_t id() const noexcept = 0;
  // Releases it after the work submitted to `streams` so far. Must be the last call.
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
  // The stream is about to be destroyed or captured; the driver may reuse its handle.
  virtual void forget_stream(const Stream& stream) = 0;
};

// Created on first use; lives as long as the process. Throws GpuUnavailable / CudaError.
DeviceMemory& device_memory(Device device);

// For Context and for the CPU; defined with the pool.
std::unique_ptr<DeviceMemory> make_device_memory(Context& context);
std::unique_ptr<DeviceMemory> make_host_device_memory();

}  // namespace gpk::inline core
