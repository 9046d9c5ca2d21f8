// Pinned host memory, and copies. Device memory comes from the pool (device/device_pool.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device.h"
#include "core/driver_api.h"

namespace gpk::inline core {

class Context;
class Stream;

// While alive, the calling thread may call allocation functions of the driver although one of its
// streams is being captured.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_;
};

// Pinned host memory, which copy engines access at full speed. Plain aligned memory on the CPU
// backend.
class PinnedMemory {
 public:
  // Throws OutOfMemory.
  static std::shared_ptr<PinnedMemory> allocate(Device device, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  PinnedMemory(Context* context, void* data, std::size_t bytes);
  Context* context_;
  void* data_;
  std::size_t bytes_;
};

// True when the driver knows `ptr` as pinned host memory: copies from it are asynchronous.
bool is_pinned(Context& context, const void* ptr);
// True when the whole range is, in one allocation.
bool is_pinned(Context& context, const void* ptr, std::size_t bytes);

// Copies on a stream; `bytes` 0 is a no-op. Pinned host memory must stay valid until the stream has
// done the copy.
void copy_to_device(cu::DevicePtr dst, const void* src, std::size_t bytes, Stream& stream);
void copy_to_host(void* dst, cu::DevicePtr src, std::size_t bytes, Stream& stream);
void copy_on_device(cu::DevicePtr dst, cu::DevicePtr src, std::size_t bytes, Stream& stream);
// `count` words of `word_bytes` (1, 2 or 4), each the low bytes of `word`.
void fill_on_device(cu::DevicePtr dst, std::uint32_t word, std::size_t word_bytes,
                    std::size_t count, Stream& stream);
// Between GPUs, with or without peer access; ordered on `stream`, of either GPU.
void copy_peer(cu::DevicePtr dst, Context& dst_context, cu::DevicePtr src, Context& src_context,
               std::size_t bytes, Stream& stream);

}  // namespace gpk::inline core
