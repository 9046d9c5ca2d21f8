// Device memory behind one small interface, pinned host memory, and copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device.h"
#include "core/driver_api.h"

namespace gpk {

class Context;
class Stream;

struct AllocatorStats {
  std::size_t used_bytes = 0;    // handed out, in rounded block sizes
  std::size_t cached_bytes = 0;  // kept for reuse
  std::size_t peak_used_bytes = 0;
  std::size_t largest_cached_bytes = 0;
  std::size_t limit_bytes = 0;  // 0: none
  std::size_t num_allocations = 0;
  std::size_t num_reuses = 0;  // allocations served without the driver
};

// Stream-ordered device memory: a block freed on a stream may be handed out again on that stream at
// once, because the stream's order keeps its old and new users apart. Thread safe.
class Allocator {
 public:
  Allocator() = default;
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // `bytes` > 0, aligned to 256. Throws OutOfMemory after giving cached memory back to the driver.
  virtual cu::DevicePtr allocate(std::size_t bytes, cu::Stream stream) = 0;
  // `bytes` and `stream` as given to allocate().
  virtual void free(cu::DevicePtr ptr, std::size_t bytes, cu::Stream stream) noexcept = 0;
  // The stream is about to go: its cached blocks go back to the driver.
  virtual void forget_stream(cu::Stream stream) noexcept = 0;
  // Gives cached blocks back to the driver; returns how many bytes.
  virtual std::size_t trim() = 0;
  [[nodiscard]] virtual AllocatorStats stats() const = 0;
};

// Keeps freed blocks in lists by stream and size. PYGPUKIT_MEMORY_LIMIT limits what all allocators
// of the context hold together.
std::shared_ptr<Allocator> make_caching_allocator(Context& context);

// For one graph capture: blocks freed are reused within the capture and go back to the driver only
// when the pool dies, because replays address them.
std::shared_ptr<Allocator> make_capture_pool(Context& context);

// While one lives, the calling thread may call allocation functions of the driver although one of
// its streams is being captured.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_;
};

// Page-locked host memory, reachable by the GPU's copy engines at full speed. Plain aligned memory
// on the CPU backend.
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

// True when the driver knows `ptr` as page-locked host memory: copies from it return before they
// are done.
bool is_pinned(Context& context, const void* ptr);
// True when all of it is, in one allocation.
bool is_pinned(Context& context, const void* ptr, std::size_t bytes);

// Copies on a stream; `bytes` 0 does nothing. Host memory must stay valid until the stream is done
// where it is pinned.
void copy_to_device(cu::DevicePtr dst, const void* src, std::size_t bytes, Stream& stream);
void copy_to_host(void* dst, cu::DevicePtr src, std::size_t bytes, Stream& stream);
void copy_on_device(cu::DevicePtr dst, cu::DevicePtr src, std::size_t bytes, Stream& stream);
// `count` words of `word_bytes` (1, 2 or 4), each the low bytes of `word`.
void fill_on_device(cu::DevicePtr dst, std::uint32_t word, std::size_t word_bytes,
                    std::size_t count, Stream& stream);
// Between GPUs, with or without direct access; ordered on `stream`, of either GPU.
void copy_peer(cu::DevicePtr dst, Context& dst_context, cu::DevicePtr src, Context& src_context,
               std::size_t bytes, Stream& stream);

}  // namespace gpk
