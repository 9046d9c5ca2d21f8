// Loaded device code: modules and the kernels in them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/driver_api.h"

namespace gpk::inline core {

class Context;
class Kernel;

class Module : public std::enable_shared_from_this<Module> {
 public:
  // `image` is a cubin or NUL-terminated PTX. Throws NvrtcError (kPtxLoadFailed) with the driver's
  // log when it cannot be loaded on this GPU.
  static std::shared_ptr<Module> load(Context& context, std::string_view image, std::string name);

  // Compiles PTX to machine code for this GPU with the driver's compiler; unlike load(), threads
  // compile in parallel. Returns the PTX itself where the driver cannot. Throws like load().
  static std::string assemble(Context& context, std::string_view ptx, const std::string& name);

  // Does not wait for running kernels: the driver unloads the code later.
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // `symbol` as in the image (mangled), `display_name` for messages. Throws NvrtcError
  // (kFunctionNotFound).
  std::shared_ptr<Kernel> kernel(const std::string& symbol, const std::string& display_name);

  // A __device__ or __constant__ variable. Throws NvrtcError (kFunctionNotFound).
  struct Global {
    cu::DevicePtr ptr = 0;
    std::size_t bytes = 0;
  };
  Global global(const std::string& symbol, const std::string& display_name);

  [[nodiscard]] Context& context() const noexcept { return context_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  Module(Context& context, cu::Module handle, std::string name);
  Context& context_;
  cu::Module handle_;
  std::string name_;
};

// Unloads all dropped modules now; waits for the device.
void unload_dropped_modules() noexcept;

struct KernelAttributes {
  int num_regs = 0;
  int local_bytes = 0;   // per thread: spills and dynamically indexed arrays
  int shared_bytes = 0;  // static
  int const_bytes = 0;
  int max_threads_per_block = 0;
  int ptx_version = 0;
  int binary_version = 0;
};

struct KernelParamInfo {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

class Kernel : public std::enable_shared_from_this<Kernel> {
 public:
  Kernel(std::shared_ptr<Module> module, cu::Function function, const char* name);

  [[nodiscard]] Context& context() const noexcept { return *context_; }
  [[nodiscard]] cu::Function function() const noexcept { return function_; }
  [[nodiscard]] const char* name() const noexcept { return name_; }  // lives as long as the process
  [[nodiscard]] const KernelAttributes& attributes() const noexcept { return attributes_; }

  // Offsets and sizes of the first `count` parameters as compiled, fewer when the kernel has fewer.
  // Querying beyond the last is a driver error (which tools report), so ask for the expected
  // number. nullopt with drivers before 12.4, which lack the query.
  [[nodiscard]] std::optional<std::vector<KernelParamInfo>> params(std::size_t count) const;

  // Block size with the best occupancy, from the driver.
  [[nodiscard]] int suggested_block_size(std::size_t dynamic_shared_bytes) const;

  // Opts in to `bytes` of dynamic shared memory; one compare when already allowed.
  void allow_shared(std::size_t bytes) const {
    if (bytes > allowed_shared_.load(std::memory_order_relaxed)) [[unlikely]]
      raise_shared(bytes);
  }
  // Allows non-portable cluster sizes (more than eight blocks).
  void allow_large_clusters() const;

 private:
  void raise_shared(std::size_t bytes) const;

  std::shared_ptr<Module> module_;
  Context* context_;
  cu::Function function_;
  const char* name_;
  KernelAttributes attributes_;
  mutable std::mutex shared_mutex_;
  mutable std::atomic<std::size_t> allowed_shared_;
};

// A copy of `text` that lives as long as the process; equal texts share one.
const char* intern(std::string_view text);

}  // namespace gpk::inline core
