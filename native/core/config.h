// Configuration from the environment (docs/environment.md), parsed once, at first use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::inline core {

enum class DeviceChoice { kAuto, kCuda, kCpu, kSim };
// Which GEMM kernels may be used: ours and cuBLASLt's, only ours, cuBLASLt's where it applies.
enum class MatmulPolicy { kAuto, kNative, kCublasLt };
enum class LogLevel { kOff, kError, kWarning, kInfo, kDebug };

struct Config {
  std::string
      cache_dir;  // resolved: PYGPUKIT_CACHE_DIR, XDG_CACHE_HOME/pygpukit, ~/.cache/pygpukit
  bool cache_disable = false;  // PYGPUKIT_CACHE_DISABLE
  // PYGPUKIT_PREFETCH: threads; not set: from the core count.
  std::optional<std::uint64_t> prefetch;
  // PYGPUKIT_JIT_INCLUDES: the folders a source given to jit may include from; not set: any.
  std::optional<std::vector<std::string>> jit_includes;
  std::string nvrtc_path;     // PYGPUKIT_NVRTC_PATH: the library, or a folder that holds it
  std::string cuda_driver;    // PYGPUKIT_CUDA_DRIVER: path of the driver library
  std::string cublaslt_path;  // PYGPUKIT_CUBLASLT_PATH
  DeviceChoice device = DeviceChoice::kAuto;  // PYGPUKIT_DEVICE
  bool require_gpu = false;                   // PYGPUKIT_REQUIRE_GPU
  MatmulPolicy matmul = MatmulPolicy::kAuto;  // PYGPUKIT_MATMUL
  bool allow_tf32 = false;                    // PYGPUKIT_ALLOW_TF32
  bool no_tf32 = false;                       // PYGPUKIT_NO_TF32 (wins over ALLOW_TF32)
  std::uint64_t memory_limit_bytes = 0;       // PYGPUKIT_MEMORY_LIMIT as bytes; 0: none
  double memory_limit_fraction = 0.0;         // PYGPUKIT_MEMORY_LIMIT as "90%"; 0: none
  std::uint64_t memory_chunk_bytes = 0;       // PYGPUKIT_MEMORY_CHUNK; 0: from the device's size
  bool launch_blocking = false;               // PYGPUKIT_LAUNCH_BLOCKING
  bool top = false;                           // PYGPUKIT_TOP
  std::optional<std::uint64_t> seed;          // PYGPUKIT_SEED
  LogLevel log = LogLevel::kWarning;          // PYGPUKIT_LOG
  std::vector<std::string> cuda_roots;        // CUDA_PATH, CUDA_HOME
  std::string conda_prefix;                   // CONDA_PREFIX
  bool no_color = false;                      // NO_COLOR

  // Returns a variable's value; nullptr when it is not set.
  using Lookup = std::function<const char*(const char* name)>;

  // Throws InvalidArgument that names the variable, its value and what is allowed.
  static Config parse(const Lookup& lookup);

  // The process's configuration. The first call reads the environment; if it throws, the next call
  // tries again.
  static const Config& get();

  // Makes the next get() read the environment again. For tests only: not thread safe.
  static void reset_for_testing();
};

// "90%" or bytes with an optional K, M, G or T (powers of 1024; also KiB and so on).
struct MemoryAmount {
  std::uint64_t bytes = 0;  // 0: a fraction
  double fraction = 0.0;    // of the device's memory
  [[nodiscard]] std::uint64_t of(std::uint64_t total_bytes) const noexcept {
    return bytes != 0 ? bytes
                      : static_cast<std::uint64_t>(fraction * static_cast<double>(total_bytes));
  }
};
// nullopt for anything else, including the empty string.
std::optional<MemoryAmount> parse_memory_amount(std::string_view text);

// One row per environment variable, for the report and the docs.
struct ConfigVariable {
  const char* name;
  const char* meaning;
};
const std::vector<ConfigVariable>& config_variables();

}  // namespace gpk::inline core
