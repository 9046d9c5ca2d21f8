// Launches of CUfunctions given by their address, and a Launcher over real streams.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "bindings/python.h"
#include "core/event.h"
#include "core/stream.h"
#include "runtime/dispatch/dispatch.h"

namespace gpk::bind {

// 4, (4,), (4, 2) or (4, 2, 1).
using LaunchDims = std::variant<std::uint32_t, std::vector<std::uint32_t>>;

// Throws InvalidArgument for more than three sizes, runtime::Error for sizes out of range.
runtime::LaunchConfig launch_config(const LaunchDims& grid, const LaunchDims& block,
                                    std::uint32_t shared_mem_bytes, std::uint64_t stream_id);

// Every argument is passed by the address of its 8 bytes, of which the kernel reads the low ones.
// Throws GpuUnavailable on the CPU backend.
void launch_raw(std::uint64_t function, const runtime::LaunchConfig& config,
                std::vector<std::uint64_t> args, Stream& stream);

// Launches on the streams it was given, by their number. Thread safe.
class StreamLauncher final : public runtime::Launcher {
 public:
  // Kernels of that number from now on launch there.
  void set_stream(std::uint64_t stream_id, std::shared_ptr<Stream> stream);
  // A Python function as a kernel: called with the arguments while its stream is the current one.
  // Returns its handle.
  std::uint64_t add_function(py::handle function);

  EventId launch(const runtime::KernelLaunchRequest& request) override;
  bool poll(EventId event) override;
  void wait(EventId event) override;
  void release(EventId event) noexcept override;

 private:
  std::shared_ptr<Event> find(EventId id);

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Stream>> streams_;
  std::map<std::uint64_t, std::shared_ptr<void>> functions_;  // Python objects
  std::map<EventId, std::shared_ptr<Event>> events_;
  EventId next_event_ = 1;
  std::uint64_t next_function_ = 1;
};

}  // namespace gpk::bind
