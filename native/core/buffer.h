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

class Allocator;
class Stream;

namespace runtime {
class PoolAccount;
}

class Buffer {
 public:
  // From the device's allocator (or the private pool of the graph being captured), for use on the
  // calling thread's current stream. Contents are undefined. Throws OutOfMemory.
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

  // Makes `stream` wait for the work of other streams marked so far.
  void order_before(Stream& stream);

  // Memory that its owner wants left as it is; passed on to those it is exported to.
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  void set_read_only() noexcept { read_only_ = true; }

 private:
  struct Key {};  // only members can make one, so that make_shared can call the constructor

 public:
  Buffer(Key, Device device, void* data, std::size_t bytes);

 private:
  void charge();
  void mark_use_slow(const std::shared_ptr<Stream>& stream);

  Device device_;
  void* data_;
  std::size_t bytes_;
  bool owned_ = false;  // ours to free
  bool read_only_ = false;
  std::shared_ptr<Stream> home_;             // allocated for; freed on
  std::shared_ptr<Allocator> allocator_;     // of device memory
  std::shared_ptr<void> owner_;              // of wrapped memory
  runtime::PoolAccount* account_ = nullptr;  // that pays
  std::atomic<Stream*> last_{nullptr};
  std::mutex users_mutex_;
  std::vector<std::shared_ptr<Stream>> users_;  // other than home_
};

}  // namespace gpk
