// A block of memory shared by arrays. It tracks the streams that used it, so that the memory is not
// reused while one of them may still access it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device.h"
#include "core/driver_api.h"

namespace gpk::inline core {

class Stream;

class Buffer {
 public:
  // From the device's memory (core/device_memory.h), for use on the calling thread's current
  // stream. Contents are undefined. Throws OutOfMemory.
  static std::shared_ptr<Buffer> allocate(Device device, std::size_t bytes);

  // Borrowed memory; `owner` is held for the life of the buffer.
  static std::shared_ptr<Buffer> wrap(Device device, void* data, std::size_t bytes,
                                      std::shared_ptr<void> owner);

  virtual ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Who has written the memory, for the simulator's checks of arrays on the CPU.
  enum class Content : unsigned char {
    kFresh,    // nobody: only simulated kernels that are checked may change that unnoticed
    kTracked,  // those have, and the simulator knows what
    kUnknown,
  };

  [[nodiscard]] Device device() const noexcept { return device_; }
  // The caller may write there: content() is unknown from now on.
  [[nodiscard]] void* data() const noexcept {
    if (content() != Content::kUnknown) [[unlikely]]
      set_content(Content::kUnknown);
    return data_;
  }
  // data() for those who only pass it on to a kernel.
  [[nodiscard]] void* address() const noexcept { return data_; }
  [[nodiscard]] cu::DevicePtr device_ptr() const noexcept {
    return static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(data()));
  }
  [[nodiscard]] Content content() const noexcept {
    return content_.load(std::memory_order_relaxed);
  }
  void set_content(Content content) const noexcept {
    content_.store(content, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  // Call before submitting work on `stream` that touches the buffer. Free when it is the stream of
  // the last call.
  void mark_use(const std::shared_ptr<Stream>& stream) {
    if (last_.load(std::memory_order_relaxed) != stream.get()) [[unlikely]]
      mark_use_slow(stream);
  }

  // Brackets the submission of work on `stream`: mark_use(), and the memory is resident, restored
  // if it was evicted, until end_use(). Throws OutOfMemory where it cannot be restored. For memory
  // that can never be evicted (small, wrapped, of a capture) this is one extra test.
  void begin_use(const std::shared_ptr<Stream>& stream) {
    mark_use(stream);
    if (movable_) begin_use_movable(*stream);
  }
  void end_use() noexcept { unpin(); }
  // Resident and not evictable until unpin(). Counted. For memory whose address has been exposed.
  void pin() {
    if (movable_) pin_movable();
  }
  void unpin() noexcept {
    if (movable_) unpin_movable();
  }
  // Pins permanently, once: the address is known to others.
  void expose();
  // User-level pin() and unpin(), counted separately: false where there is nothing to undo.
  void hold();
  [[nodiscard]] bool release_hold() noexcept;

  // Makes `stream` wait for work marked so far on other streams.
  void order_before(Stream& stream);

  // Id of the CaptureMemory it was allocated from; 0: none.
  [[nodiscard]] std::uint64_t capture_id() const noexcept { return capture_id_; }

  // The owner forbids writes; passed on to consumers of an export.
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  void set_read_only() noexcept { read_only_ = true; }
  // Never written again, and all writes are complete: a kernel may read it before its predecessor
  // has ended (programmatic dependent launch). Implies read-only. The caller guarantees it.
  [[nodiscard]] bool frozen() const noexcept { return frozen_; }
  void set_frozen() noexcept { read_only_ = frozen_ = true; }

 protected:
  Buffer(Device device, void* data, std::size_t bytes)
      : device_(device), data_(data), bytes_(bytes) {}
  // For constructors of derived classes. `movable`: may be evicted, now or once marked.
  void set_memory(void* data, bool movable) noexcept {
    data_ = data;
    movable_ = movable;
  }
  void set_home(const std::shared_ptr<Stream>& stream) {
    home_ = stream;
    last_.store(stream.get(), std::memory_order_relaxed);
  }
  void set_capture_id(std::uint64_t id) noexcept { capture_id_ = id; }
  [[nodiscard]] const std::shared_ptr<Stream>& home() const noexcept { return home_; }
  // Streams other than home(). For destructors.
  [[nodiscard]] const std::vector<std::shared_ptr<Stream>>& users() const noexcept {
    return users_;
  }

  // Called where the memory is movable. Throws OutOfMemory where it cannot be restored.
  virtual void begin_use_movable(Stream& stream);
  virtual void pin_movable() {}
  virtual void unpin_movable() noexcept {}

 private:
  void mark_use_slow(const std::shared_ptr<Stream>& stream);

  Device device_;
  void* data_;
  std::size_t bytes_;
  mutable std::atomic<Content> content_{Content::kFresh};
  std::atomic<bool> exposed_{false};
  bool movable_ = false;
  bool read_only_ = false;
  bool frozen_ = false;
  std::atomic<std::uint32_t> num_holds_{0};
  std::shared_ptr<Stream> home_;  // allocated for this stream, and freed on it
  std::uint64_t capture_id_ = 0;
  std::shared_ptr<void> owner_;  // of wrapped memory
  std::atomic<Stream*> last_{nullptr};
  std::mutex users_mutex_;
  std::vector<std::shared_ptr<Stream>> users_;  // other than home_
};

// begin_use() / end_use() as RAII.
class BufferUse {
 public:
  BufferUse(const std::shared_ptr<Buffer>& buffer, const std::shared_ptr<Stream>& stream)
      : buffer_(*buffer) {
    buffer_.begin_use(stream);
  }
  ~BufferUse() { buffer_.end_use(); }
  BufferUse(const BufferUse&) = delete;
  BufferUse& operator=(const BufferUse&) = delete;

 private:
  Buffer& buffer_;
};

// pin() / unpin() as RAII; keeps the buffer alive.
class BufferPin {
 public:
  explicit BufferPin(std::shared_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {
    buffer_->pin();
  }
  ~BufferPin() { buffer_->unpin(); }
  BufferPin(const BufferPin&) = delete;
  BufferPin& operator=(const BufferPin&) = delete;

 private:
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace gpk::inline core
