// The transfer engine of each device, and copies between host and device that go through it where
// that is faster than the driver's own.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "core/device.h"
#include "core/driver_api.h"
#include "device/copy_device.h"
#include "runtime/sharing/pacing_share.h"
#include "runtime/transfer/transfer_engine.h"

namespace gpk::inline core {
class Stream;
}

namespace gpk::device {

// An engine with what it runs on. Its threads start with the first transfer.
class Transfers {
 public:
  Transfers(Device device, const runtime::TransferEngine::Options& options);

  [[nodiscard]] runtime::TransferEngine& engine() noexcept { return engine_; }
  // Starts a transfer after the work submitted to `stream` so far, in the share of the stream's
  // partition. The memory on both sides stays valid until it is done.
  runtime::TransferFuture submit(runtime::TransferType type, std::uint64_t dst, std::uint64_t src,
                                 std::size_t bytes, const std::shared_ptr<Stream>& stream,
                                 runtime::TransferEngine::SubmitOptions options = {});
  // Waits for what is in flight, cancels the rest, ends the threads. Futures stay valid: their
  // transfers are done. Others may be using it.
  void close() noexcept { engine_.stop(); }

 private:
  std::unique_ptr<DeviceCopies> copies_;
  runtime::TransferEngine engine_;
};

// Made at first use, kept until close_transfers(); a child process makes its own.
std::shared_ptr<Transfers> transfers(Device device);
// nullptr where none was made.
std::shared_ptr<Transfers> existing_transfers(Device device);
// For the engine made next. Throws Error where the device has one already.
void configure_transfers(Device device, const runtime::TransferEngine::Options& options);
// Closes all of them. For the end of the process.
void close_transfers() noexcept;

// Shares of the link's bytes, by partition. Lives as long as the process.
runtime::SharePacer& bandwidth_pacer(Device device);

// From here on pageable host memory goes through the engine; below, its fixed cost is larger than
// what it wins.
inline constexpr std::size_t kEngineMinBytes = std::size_t{1} << 20;

// Host memory to device memory, in order with `stream`: returns when `src` may be changed.
void upload(cu::DevicePtr dst, const void* src, std::size_t bytes,
            const std::shared_ptr<Stream>& stream);
// Device memory to host memory after the work submitted to `stream` so far: returns when `dst` is
// complete. Throws what that work has reported.
void download(void* dst, cu::DevicePtr src, std::size_t bytes,
              const std::shared_ptr<Stream>& stream);

}  // namespace gpk::device
