// A user's CUDA C source, compiled and loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/module.h"
#include "jit/compiler.h"
#include "jit/host_module.h"

namespace gpk::jit {

class Program {
 public:
  // Compiles `source` for `device` (through the disk cache) and loads it. Equal requests share one
  // loaded program as long as it has an owner; concurrent ones compile once. On the CPU device the
  // source is compiled to PTX for the simulator (jit/host_module.h), and not at all where NVRTC is
  // missing.
  static std::shared_ptr<Program> build(const CompileRequest& request, Device device);

  // Live programs, oldest first.
  static std::vector<std::shared_ptr<Program>> all();
  struct BuildCounts {
    std::uint64_t num_hits = 0;    // requests that found a program
    std::uint64_t num_misses = 0;  // requests that compiled, or loaded from disk
  };
  static BuildCounts counts();

  // Throws NvrtcError (kFunctionNotFound); GpuUnavailable on the CPU device.
  std::shared_ptr<Kernel> kernel(const std::string& expression);
  // The CPU device's counterpart; the program is loaded into the simulator on first use. Throws
  // NvrtcError, and GpuUnavailable where NVRTC is missing, which says what to install.
  std::shared_ptr<HostKernel> host_kernel(const std::string& expression);
  // On either device.
  Module::Global global(const std::string& name);

  // The source of a program for the simulator that was built lately, also where it is gone: the
  // one of that name and with that text_id() of its PTX. Empty: none.
  static std::string built_source(const std::string& name, std::uint64_t ptx_id);

  // Compiled on demand; throws NvrtcError without NVRTC.
  [[nodiscard]] std::string ptx() const;

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] bool compiled() const noexcept { return compiled_; }
  [[nodiscard]] const CompileRequest& request() const noexcept { return request_; }
  [[nodiscard]] const std::string& log() const noexcept { return image_.log; }
  [[nodiscard]] std::size_t image_bytes() const noexcept { return image_.bytes.size(); }

  Program(CompileRequest request, Device device);

 private:
  HostModule& host_module(const std::string& name);

  CompileRequest request_;
  Device device_;
  CompiledImage image_;
  bool compiled_ = false;
  std::shared_ptr<Module> module_;
  std::mutex host_mutex_;
  std::shared_ptr<HostModule> host_module_;
};

}  // namespace gpk::jit
