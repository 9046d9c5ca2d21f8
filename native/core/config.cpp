#include "core/config.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/lower_case.h"
#include "base/text.h"

namespace gpk::inline core {
namespace {

[[noreturn]] void bad_value(const char* name, std::string_view value, const char* allowed) {
  throw InvalidArgument(cat("environment: ", name, " is '", value, "', expected ", allowed));
}

// Reads typed values and keeps the lookup, so that parse() is a list.
class Reader {
 public:
  explicit Reader(const Config::Lookup& lookup) : lookup_(lookup) {}

  [[nodiscard]] std::string text(const char* name) const {
    const char* value = lookup_(name);
    return value == nullptr ? std::string() : std::string(trim(value));
  }

  [[nodiscard]] bool flag(const char* name) const {
    const std::string value = lower_case(text(name));
    if (value.empty() || value == "0" || value == "false" || value == "no" || value == "off")
      return false;
    if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
    bad_value(name, value, "1 or 0");
  }

  [[nodiscard]] std::optional<std::uint64_t> number(const char* name) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    std::uint64_t result = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (problem != std::errc() || end != value.data() + value.size())
      bad_value(name, value, "a whole number, 0 or larger");
    return result;
  }

  template <class Enum>
  Enum choice(const char* name, Enum fallback, const char* allowed,
              std::initializer_list<std::pair<const char*, Enum>> options) const {
    const std::string value = lower_case(text(name));
    if (value.empty()) return fallback;
    for (const auto& [spelling, option] : options)
      if (value == spelling) return option;
    bad_value(name, value, allowed);
  }

 private:
  const Config::Lookup& lookup_;
};

void parse_memory_limit(const Reader& read, Config& config) {
  constexpr const char* kName = "PYGPUKIT_MEMORY_LIMIT";
  const std::string value = read.text(kName);
  if (value.empty()) return;
  const auto amount = parse_memory_amount(value);
  if (!amount)
    bad_value(kName, value, "bytes (optionally with K, M, G or T) or a percentage like 90%");
  config.memory_limit_bytes = amount->bytes;
  config.memory_limit_fraction = amount->fraction;
}

void parse_memory_chunk(const Reader& read, Config& config) {
  constexpr const char* kName = "PYGPUKIT_MEMORY_CHUNK";
  const std::string value = read.text(kName);
  if (value.empty()) return;
  const auto amount = parse_memory_amount(value);
  if (!amount || !std::has_single_bit(amount->bytes) || amount->bytes < (1U << 16))
    bad_value(kName, value, "a power of two from 64K on");
  config.memory_chunk_bytes = amount->bytes;
}

// "sim:sm_80" and so on are for the simulated driver, which reads them itself.
DeviceChoice parse_device(const Reader& read) {
  constexpr const char* kName = "PYGPUKIT_DEVICE";
  if (lower_case(read.text(kName)).starts_with("sim:")) return DeviceChoice::kSim;
  return read.choice(kName, DeviceChoice::kAuto, "auto, cuda, cpu or sim",
                     {{"auto", DeviceChoice::kAuto},
                      {"cuda", DeviceChoice::kCuda},
                      {"gpu", DeviceChoice::kCuda},
                      {"cpu", DeviceChoice::kCpu},
                      {"sim", DeviceChoice::kSim}});
}

// Separated as in PATH; "none" for no folder.
std::optional<std::vector<std::string>> parse_folders(const std::string& value) {
#ifdef _WIN32
  constexpr char kSeparator = ';';
#else
  constexpr char kSeparator = ':';
#endif
  if (value.empty()) return std::nullopt;
  std::vector<std::string> folders;
  if (value == "none") return folders;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(kSeparator, begin), value.size());
    if (end > begin) folders.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

std::string default_cache_dir(const Reader& read) {
  if (std::string dir = read.text("PYGPUKIT_CACHE_DIR"); !dir.empty()) return dir;
  if (std::string dir = read.text("XDG_CACHE_HOME"); !dir.empty()) return dir + "/pygpukit";
  if (std::string dir = read.text("HOME"); !dir.empty()) return dir + "/.cache/pygpukit";
  if (std::string dir = read.text("LOCALAPPDATA"); !dir.empty()) return dir + "/pygpukit";
  return {};
}

struct Shared {
  std::mutex mutex;
  std::unique_ptr<const Config> config;
};

Shared& shared() {
  static auto* instance = new Shared;  // never destroyed: used by objects that outlive main()
  return *instance;
}

}  // namespace

std::optional<MemoryAmount> parse_memory_amount(std::string_view text) {
  const std::string_view value = trim(text);
  double amount = 0.0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), amount);
  if (problem != std::errc() || !(amount > 0.0)) return std::nullopt;
  std::string unit = lower_case(trim(value.substr(static_cast<std::size_t>(end - value.data()))));
  if (unit == "%") {
    if (amount > 100.0) return std::nullopt;
    return MemoryAmount{.bytes = 0, .fraction = amount / 100.0};
  }
  if (unit.size() == 3 && unit.ends_with("ib")) unit.resize(1);
  static constexpr const char* kUnits[] = {"", "k", "m", "g", "t"};
  double scale = 1.0;
  for (const char* known : kUnits) {
    if (unit == known && amount * scale >= 1.0 && amount * scale < 1e18)
      return MemoryAmount{.bytes = static_cast<std::uint64_t>(amount * scale), .fraction = 0.0};
    scale *= 1024.0;
  }
  return std::nullopt;
}

Config Config::parse(const Lookup& lookup) {
  const Reader read(lookup);
  Config config;
  config.cache_dir = default_cache_dir(read);
  config.cache_disable = read.flag("PYGPUKIT_CACHE_DISABLE");
  config.prefetch = read.number("PYGPUKIT_PREFETCH");
  config.jit_includes = parse_folders(read.text("PYGPUKIT_JIT_INCLUDES"));
  config.nvrtc_path = read.text("PYGPUKIT_NVRTC_PATH");
  config.cuda_driver = read.text("PYGPUKIT_CUDA_DRIVER");
  config.cublaslt_path = read.text("PYGPUKIT_CUBLASLT_PATH");
  config.device = parse_device(read);
  config.require_gpu = read.flag("PYGPUKIT_REQUIRE_GPU");
  config.matmul = read.choice("PYGPUKIT_MATMUL", MatmulPolicy::kAuto, "auto, native or cublaslt",
                              {{"auto", MatmulPolicy::kAuto},
                               {"native", MatmulPolicy::kNative},
                               {"cublaslt", MatmulPolicy::kCublasLt}});
  config.allow_tf32 = read.flag("PYGPUKIT_ALLOW_TF32");
  config.no_tf32 = read.flag("PYGPUKIT_NO_TF32");
  parse_memory_limit(read, config);
  parse_memory_chunk(read, config);
  config.launch_blocking = read.flag("PYGPUKIT_LAUNCH_BLOCKING");
  config.top = read.flag("PYGPUKIT_TOP");
  config.seed = read.number("PYGPUKIT_SEED");
  config.log = read.choice("PYGPUKIT_LOG", LogLevel::kWarning, "off, error, warning, info or debug",
                           {{"off", LogLevel::kOff},
                            {"error", LogLevel::kError},
                            {"warning", LogLevel::kWarning},
                            {"info", LogLevel::kInfo},
                            {"debug", LogLevel::kDebug}});
  for (const char* name : {"CUDA_PATH", "CUDA_HOME"})
    if (std::string root = read.text(name); !root.empty())
      config.cuda_roots.push_back(std::move(root));
  config.conda_prefix = read.text("CONDA_PREFIX");
  config.no_color = !read.text("NO_COLOR").empty();
  if (config.device == DeviceChoice::kCpu && config.require_gpu)
    throw InvalidArgument(
        "environment: PYGPUKIT_DEVICE=cpu and PYGPUKIT_REQUIRE_GPU=1 are mutually exclusive");
  return config;
}

const Config& Config::get() {
  Shared& state = shared();
  const std::lock_guard lock(state.mutex);
  if (!state.config)
    state.config =
        std::make_unique<const Config>(parse([](const char* name) { return std::getenv(name); }));
  return *state.config;
}

void Config::reset_for_testing() {
  const std::lock_guard lock(shared().mutex);
  shared().config.reset();
}

const std::vector<ConfigVariable>& config_variables() {
  static const auto& variables = *new std::vector<ConfigVariable>{
      {"PYGPUKIT_DEVICE", "auto (default), cuda, cpu or sim (also sim:sm_80): where arrays live"},
      {"PYGPUKIT_REQUIRE_GPU", "1: raise instead of falling back to CPU simulation"},
      {"PYGPUKIT_CUDA_DRIVER", "path of the CUDA driver library"},
      {"PYGPUKIT_SIM_DEVICE", "the GPU that the simulator shows: sm_90a (default), a100, ..."},
      {"PYGPUKIT_NVRTC_PATH", "NVRTC library, or the folder that holds it; nothing else is tried"},
      {"PYGPUKIT_CUBLASLT_PATH", "cuBLASLt library, or the folder that holds it"},
      {"PYGPUKIT_CACHE_DIR", "folder of compiled kernels"},
      {"PYGPUKIT_CACHE_DISABLE", "1: compile every time, keep nothing on disk"},
      {"PYGPUKIT_PREFETCH", "threads that compile kernels in the background; 0: none"},
      {"PYGPUKIT_JIT_INCLUDES", "the only folders that jit sources may include from, or none"},
      {"PYGPUKIT_MEMORY_LIMIT", "device memory this process may take: bytes (K, M, G, T) or 90%"},
      {"PYGPUKIT_MEMORY_CHUNK", "size of the physical chunks that the memory pool grows by (8M)"},
      {"PYGPUKIT_MATMUL", "auto (default), native or cublaslt: whose GEMM kernels are used"},
      {"PYGPUKIT_ALLOW_TF32", "1: float32 GEMMs may use TF32"},
      {"PYGPUKIT_NO_TF32", "1: never use TF32; overrides all other settings"},
      {"PYGPUKIT_LAUNCH_BLOCKING", "1: wait after every launch, so that errors name their kernel"},
      {"PYGPUKIT_SEED", "default seed of random numbers"},
      {"PYGPUKIT_LOG", "off, error, warning (default), info or debug"},
      {"PYGPUKIT_TOP", "1: publish scheduler state for python -m pygpukit top"},
      {"CUDA_VISIBLE_DEVICES", "GPUs visible to the driver"},
      {"CUDA_PATH", "a CUDA toolkit, searched last for NVRTC and headers"},
      {"CUDA_HOME", "same as CUDA_PATH"},
      {"CONDA_PREFIX", "conda environment, searched for NVRTC"},
      {"XDG_CACHE_HOME", "parent of the default cache folder"},
      {"XDG_RUNTIME_DIR", "parent of the folder PYGPUKIT_TOP publishes to"},
      {"NO_COLOR", "no colour in terminal output"},
  };
  return variables;
}

}  // namespace gpk::inline core
