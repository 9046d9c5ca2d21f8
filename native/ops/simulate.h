// Kernels of the library on CPU arrays, in the simulator (jit/host_module.h).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "core/array.h"
#include "core/launch.h"
#include "jit/program.h"

namespace gpk::ops {

// The variants of one kernel, each compiled on first use.
class SimulatedKernel {
 public:
  // Runs to the end, as HostKernel::run; `arrays` are all that the kernel may touch. Throws
  // GpuUnavailable where NVRTC or the simulator is missing.
  void run(std::uint64_t variant, const jit::CompileRequest& request, const LaunchConfig& config,
           std::span<const Array* const> arrays, void** params);

 private:
  struct Variant {
    std::shared_ptr<jit::Program> program;
    std::shared_ptr<jit::HostKernel> kernel;
  };
  std::mutex mutex_;
  std::map<std::uint64_t, Variant> variants_;
};

}  // namespace gpk::ops
