// PTX on a machine without a GPU: loaded into the simulated driver (core/sim_driver.h) and run on
// host memory. Nothing is copied.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/launch.h"
#include "core/module.h"

namespace gpk::jit {

// Memory that a launch may touch, beside the module's own variables.
struct HostRange {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::string name;                // for reports: "argument 'x'"
  const Buffer* buffer = nullptr;  // knows whether anybody has written it; null: somebody has
};

// Compute capability of the simulated device: what to compile for. Throws GpuUnavailable.
int host_sm();

class HostModule;

// Held by a launch on host arrays to its end: until then its ranges and options are the
// simulator's, and its fault is the context's. So it is by all else that asks the simulator.
std::mutex& host_launch_mutex();

class HostKernel {
 public:
  HostKernel(std::shared_ptr<HostModule> module, cu::Function function, std::string name);

  [[nodiscard]] const KernelAttributes& attributes() const noexcept { return attributes_; }
  // As Kernel::params.
  [[nodiscard]] std::vector<KernelParamInfo> params(std::size_t count) const;
  [[nodiscard]] int suggested_block_size(std::size_t dynamic_shared_bytes) const;

  // Runs to the end. `params` as cuLaunchKernel. Throws CudaError with the simulator's finding
  // (kernel, block, thread, source line) where the kernel faults, and InvalidArgument for a shape
  // that it cannot have; the module stays usable.
  void run(const LaunchConfig& config, std::span<const HostRange> ranges, void** params) const;

 private:
  std::shared_ptr<HostModule> module_;
  cu::Function function_;
  std::string name_;
  KernelAttributes attributes_;
};

class HostModule : public std::enable_shared_from_this<HostModule> {
 public:
  // `ptx` is NUL-terminated. Throws NvrtcError (kPtxLoadFailed) that names what the simulator does
  // not know, GpuUnavailable where it is not installed.
  static std::shared_ptr<HostModule> load(const std::string& ptx, const std::string& name);
  ~HostModule();
  HostModule(const HostModule&) = delete;
  HostModule& operator=(const HostModule&) = delete;

  // Throw NvrtcError (kFunctionNotFound).
  std::shared_ptr<HostKernel> kernel(const std::string& symbol, const std::string& display_name);
  Module::Global global(const std::string& symbol, const std::string& display_name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  HostModule(cu::Module handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  cu::Module handle_;
  std::string name_;
};

}  // namespace gpk::jit
