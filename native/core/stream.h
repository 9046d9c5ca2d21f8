// Streams and the calling thread's current stream. Every op runs on the current stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/device.h"
#include "core/driver_api.h"

namespace gpk::inline core {

class Context;
class Event;
class GreenContext;
class SubmissionGate;
struct StreamTenant;

enum class StreamPriority : int { kHigh = 0, kLow = 1 };

// On the CPU a stream is only an identity: work is done when the call returns.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // A new non-blocking stream.
  static std::shared_ptr<Stream> create(Device device, StreamPriority priority);

  // A stream of a partition (device/device_partition.h): on the multiprocessors of `green` (null:
  // all), with the given driver priority.
  static std::shared_ptr<Stream> create_in(Device device, std::shared_ptr<GreenContext> green,
                                           int priority);

  // A stream created elsewhere. `owner` (may be null) is kept until the last use of the result.
  static std::shared_ptr<Stream> wrap(Device device, std::uintptr_t handle,
                                      std::shared_ptr<void> owner);

  // The device's default stream (the legacy default stream on a GPU).
  static std::shared_ptr<Stream> default_for(Device device);

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] Context* context() const noexcept { return context_; }  // nullptr on the CPU
  [[nodiscard]] cu::Stream handle() const noexcept { return handle_; }
  [[nodiscard]] std::uintptr_t handle_value() const noexcept {
    return reinterpret_cast<std::uintptr_t>(handle_);
  }
  [[nodiscard]] StreamPriority priority() const noexcept { return priority_; }
  // The driver's value: lower is more urgent.
  [[nodiscard]] int driver_priority() const noexcept { return driver_priority_; }

  // The gate work must pass before submission; nullptr: none.
  [[nodiscard]] SubmissionGate* gate() const noexcept { return gate_; }
  // Which bandwidth share its copies are charged to and which multiprocessors it has; nothing for
  // streams outside of partitions.
  [[nodiscard]] std::optional<std::uint64_t> bandwidth_member() const noexcept;
  [[nodiscard]] std::shared_ptr<GreenContext> green() const noexcept;
  [[nodiscard]] StreamTenant* tenant() const noexcept { return tenant_.get(); }
  // Call once, before the stream is used.
  void set_tenant(std::unique_ptr<StreamTenant> tenant);

  // Blocks until everything submitted so far is done. CaptureError while this thread captures.
  void synchronize();
  // True when idle. CaptureError while this thread captures.
  bool query();
  // Later work on this stream starts after `event`.
  void wait(const Event& event);
  // Later work on this stream starts after all work submitted to `other` so far.
  void wait(Stream& other);

  // Its owner submits no more work: arrays forget it when it is idle.
  void retire() noexcept { retired_.store(true); }
  [[nodiscard]] bool retired() const noexcept { return retired_.load(); }

  // True while a graph capture is recording this stream.
  bool capturing();

 private:
  friend class Context;
  Stream(Device device, Context* context, cu::Stream handle, StreamPriority priority, bool owned,
         std::shared_ptr<void> owner);
  static std::shared_ptr<Stream> make_default(Context& context);

  Device device_;
  Context* context_;
  cu::Stream handle_;
  StreamPriority priority_;
  int driver_priority_ = 0;
  bool owned_;
  std::shared_ptr<void> owner_;
  std::unique_ptr<StreamTenant> tenant_;
  SubmissionGate* gate_ = nullptr;
  std::atomic<bool> retired_{false};
};

// The calling thread's current stream on `device`.
const std::shared_ptr<Stream>& current_stream(Device device);

// Sets it and returns the one it replaces.
std::shared_ptr<Stream> exchange_current_stream(std::shared_ptr<Stream> stream);

// Makes a stream current for a scope.
class StreamScope {
 public:
  explicit StreamScope(std::shared_ptr<Stream> stream)
      : previous_(exchange_current_stream(std::move(stream))) {}
  ~StreamScope() { exchange_current_stream(std::move(previous_)); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  std::shared_ptr<Stream> previous_;
};

// Resets the calling thread's current streams. For tests only.
void reset_streams_for_testing();

}  // namespace gpk::inline core
