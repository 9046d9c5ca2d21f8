// The primary context of one GPU, which all handles of that GPU refer to. Contexts live as long as
// the process, so handles may be dropped at any time, also during interpreter shutdown.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/device.h"
#include "core/device_report.h"
#include "core/driver_api.h"

namespace gpk::inline core {

class DeviceMemory;
class Stream;

class Context {
 public:
  // Retains the primary context on first use. Throws GpuUnavailable / CudaError.
  static Context& get(int device_index);

  // Contexts created so far.
  static std::vector<Context*> all();

  // Makes this the calling thread's current context; a few nanoseconds when it already is.
  // Throws DeviceLostError when the context is dead.
  void make_current() {
    if (dead_.load(std::memory_order_relaxed)) [[unlikely]]
      throw_lost();
    const cu::DriverApi& api = driver();
    cu::Context current = nullptr;
    check_cuda(api.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current != handle_) [[unlikely]]
      check_cuda(api.cuCtxSetCurrent(handle_), "cuCtxSetCurrent");
  }

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] const DeviceTraits& traits() const noexcept { return traits_; }
  [[nodiscard]] cu::Context handle() const noexcept { return handle_; }
  [[nodiscard]] const std::shared_ptr<Stream>& default_stream() const noexcept { return default_; }
  [[nodiscard]] DeviceMemory& memory() noexcept { return *memory_; }
  [[nodiscard]] int greatest_priority() const noexcept { return greatest_priority_; }

  // Waits for all work this process submitted to this GPU. Throws CaptureError while any thread
  // captures a graph here: synchronising would invalidate that capture.
  void synchronize();

  // Where kernels report bad indices; created on first use.
  DeviceReport& report() {
    DeviceReport* report = report_.load(std::memory_order_acquire);
    return report != nullptr ? *report : make_report();
  }
  // After a wait: throws any error the finished work has reported.
  void check_report(cu::Stream stream) {
    if (DeviceReport* report = report_.load(std::memory_order_acquire); report != nullptr)
      report->check(stream);
  }

  // Enables access from kernels and copies here to the memory of `peer`. False where the hardware
  // has no peer access.
  bool enable_peer_access(Context& peer);

  // Records a launch for error messages. `name` must live as long as the process.
  void note_launch(const char* name, const unsigned grid[3], const unsigned block[3],
                   cu::Stream stream) noexcept;

  // Newest first, at most four: "scale<<<(4,1,1), (256,1,1)>>> on stream 0x0".
  [[nodiscard]] std::vector<std::string> recent_launches() const;

  // Graph captures in progress, by all threads.
  [[nodiscard]] std::atomic<int>& num_captures() noexcept { return num_captures_; }

  // After a sticky error: later make_current() calls throw DeviceLostError naming `cause`.
  void mark_dead(const std::string& cause) noexcept;
  [[nodiscard]] bool dead() const noexcept { return dead_.load(std::memory_order_relaxed); }

  // The calling thread's current context, if it is one of ours.
  static Context* current_or_null() noexcept;

  static void forget_all_for_testing();

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  explicit Context(int device_index);
  [[noreturn]] void throw_lost() const;
  DeviceReport& make_report();

  struct LaunchRecord {
    std::atomic<const char*> name{nullptr};
    std::atomic<unsigned> grid[3];
    std::atomic<unsigned> block[3];
    std::atomic<cu::Stream> stream{nullptr};
  };
  static constexpr unsigned kNumRecords = 16;

  Device device_;
  DeviceTraits traits_;
  cu::Device ordinal_ = 0;
  cu::Context handle_ = nullptr;
  int greatest_priority_ = 0;
  std::shared_ptr<Stream> default_;
  std::unique_ptr<DeviceMemory> memory_;
  std::atomic<int> num_captures_{0};
  std::atomic<bool> dead_{false};
  std::atomic<DeviceReport*> report_{nullptr};
  mutable std::mutex cause_mutex_;
  std::string cause_;
  std::atomic<std::uint64_t> num_launches_{0};
  LaunchRecord records_[kNumRecords];
};

}  // namespace gpk::inline core
