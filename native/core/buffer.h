// A piece of memory that arrays share. A device buffer knows the streams that used it, so that it
// is not handed out again while one of them may still read it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device.h"
#include "core/driver_api.h"

namespace gpk {

class MemoryAccount;
class Stream;

namespace runtime {
class Pool;
struct PoolBlock;
}  // namespace runtime

class Buffer {
 public:
  // From the device's pool (or the private part of the graph being captured), for use on the
  // calling thread's current stream, paid by its account. Contents are undefined. Throws
  // OutOfMemory.
  static std::shared_ptr<Buffer> allocate(Device device, std::size_t bytes);

  // Memory that belongs to someone else; `owner` is kept as long as the buffer.
  static std::shared_ptr<Buffer> wrap(Device device, void* data, std::size_t bytes,
                                      std::shared_ptr<void> owner);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] cu::DevicePtr device_ptr() const noexcept {
    return static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(data_));
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  // To be called before work on `stream` that touches the buffer. Free when it is the stream of
  // the last call.
  void mark_use(const std::shared_ptr<Stream>& stream) {
    if (last_.load(std::memory_order_relaxed) != stream.get()) [[unlikely]]
      mark_use_slow(stream);
  }

  // Around the submission of work on `stream`: mark_use(), and the memory is on the device, brought
  // back if it was evicted, and stays there. Throws OutOfMemory where it cannot come back. For
  // memory that can never be evicted (small, wrapped, of a capture) this is one test more.
  void begin_use(const std::shared_ptr<Stream>& stream) {
    mark_use(stream);
    if (movable_) begin_use_movable(*stream);
  }
  void end_use() noexcept {
    if (movable_) unpin();
  }
  // On the device and never evicted until unpin(). Counted. For memory that others have seen.
  void pin();
  void unpin() noexcept;
  // The same for good, once: others know the address.
  void expose();
  // pin() and unpin() by the user, counted apart: false where there is nothing to take back.
  void hold();
  [[nodiscard]] bool let_go() noexcept;

  // Makes `stream` wait for the work of other streams marked so far.
  void order_before(Stream& stream);

  // Where the memory comes from; nullptr when it belongs to someone else or is empty.
  [[nodiscard]] runtime::Pool* pool() const noexcept { return pool_; }
  [[nodiscard]] runtime::PoolBlock* block() const noexcept { return block_; }
  // The private part of a capture that it was allocated in, by its number; 0: none.
  [[nodiscard]] std::uint64_t capture_arena_id() const noexcept { return arena_id_; }

  // Memory that its owner wants left as it is; passed on to those it is exported to.
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  void set_read_only() noexcept { read_only_ = true; }
  // Nobody writes it any more, and all that was written is there: a kernel may read it before the
  // one in front of it has ended. Read-only, too. For the caller to make true.
  [[nodiscard]] bool frozen() const noexcept { return frozen_; }
  void set_frozen() noexcept { read_only_ = frozen_ = true; }

 private:
  struct Key {};  // only members can make one, so that make_shared can call the constructor

 public:
  Buffer(Key, Device device, void* data, std::size_t bytes);

 private:
  void mark_use_slow(const std::shared_ptr<Stream>& stream);
  void begin_use_movable(Stream& stream);
  void take_block(std::size_t bytes);
  void give_back();

  Device device_;
  void* data_;
  std::size_t bytes_;
  std::atomic<bool> exposed_{false};
  bool movable_ = false;  // can be evicted, now or once it is marked
  bool read_only_ = false;
  bool frozen_ = false;
  std::atomic<std::uint32_t> num_holds_{0};
  runtime::Pool* pool_ = nullptr;
  runtime::PoolBlock* block_ = nullptr;  // ours to free
  std::shared_ptr<Stream> home_;         // allocated for; freed on
  std::uint64_t arena_id_ = 0;           // of a capture
  std::shared_ptr<MemoryAccount> account_;
  std::shared_ptr<void> owner_;  // of wrapped memory
  std::atomic<Stream*> last_{nullptr};
  std::mutex users_mutex_;
  std::vector<std::shared_ptr<Stream>> users_;  // other than home_
};

// begin_use() and end_use() for a scope.
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

// pin() and unpin() for as long as it lives; keeps the buffer.
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

}  // namespace gpk
