#include "core/driver.h"

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "core/config.h"
#include "core/context.h"
#include "core/driver_table.h"
#include "core/library.h"
#include "core/sim_driver.h"

#ifndef _WIN32
#include <pthread.h>
#endif

namespace gpk::inline core {

std::atomic<const cu::DriverApi*> detail::g_driver{nullptr};

namespace {

struct DriverState {
  std::mutex mutex;
  const cu::DriverApi* injected = nullptr;
  bool probed = false;
  DriverInfo info;
  cu::DriverApi loaded;
  cu::SimApi sim;
};

DriverState& state() {
  static auto* instance = new DriverState;  // never destroyed: handles outlive main()
  return *instance;
}

// Set in a forked child, where the driver's threads and contexts do not exist.
std::atomic<bool> g_forked{false};

std::atomic<bool> g_simulated{false};

void guard_forks() {
#ifndef _WIN32
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      if (detail::g_driver.exchange(nullptr) != nullptr) g_forked = true;
    });
  });
#endif
}

std::vector<std::string> candidate_names(const Config& config) {
  if (!config.cuda_driver.empty()) return {config.cuda_driver};
  if (config.device == DeviceChoice::kSim) return sim_library_names();
#ifdef _WIN32
  return {"nvcuda.dll"};
#else
  return {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"};
#endif
}

// Fills info.path and state.loaded, or info.problem.
void load_library(DriverState& s) {
  DriverInfo& info = s.info;
  SharedLibrary library;
  for (const std::string& name : candidate_names(Config::get())) {
    std::string why;
    library = SharedLibrary::open(name, &why);
    info.tried.push_back(library ? cat(name, ": loaded") : cat(name, ": ", why));
    if (library) break;
  }
  if (!library) {
    info.problem = cat("CUDA driver not detected. Tried:\n  ", join(info.tried, "\n  "));
    return;
  }
  auto get_version = reinterpret_cast<cu::Result (*)(int*)>(library.symbol("cuDriverGetVersion"));
  if (get_version == nullptr || get_version(&info.version) != cu::kSuccess) {
    info.problem = cat("CUDA driver not detected: ", info.tried.back(),
                       ", but it has no working cuDriverGetVersion");
    return;
  }
  info.path = SharedLibrary::path_of(reinterpret_cast<const void*>(get_version));
  info.problem = fill_driver_table(library, info.version, s.loaded);
  info.simulated = fill_sim_table(library, s.sim);
}

std::string error_name(const cu::DriverApi& api, cu::Result result) {
  const char* text = nullptr;
  if (api.cuGetErrorName(result, &text) == cu::kSuccess && text != nullptr) return text;
  return cat("CUDA error ", result);
}

void start(DriverState& s, const cu::DriverApi& api) {
  DriverInfo& info = s.info;
  if (const cu::Result result = api.cuInit(0); result != cu::kSuccess) {
    info.problem = result == cu::kNoDevice ? "No GPU devices found (cuDeviceGetCount == 0)"
                                           : cat("CUDA driver not usable: cuInit failed with ",
                                                 error_name(api, result));
    return;
  }
  if (info.version == 0) api.cuDriverGetVersion(&info.version);
  info.loaded = true;
  if (const cu::Result result = api.cuDeviceGetCount(&info.device_count); result != cu::kSuccess) {
    info.problem = cat("cuDeviceGetCount failed with ", error_name(api, result));
    return;
  }
  if (info.device_count == 0) {
    info.problem = "No GPU devices found (cuDeviceGetCount == 0)";
    return;
  }
  guard_forks();
  g_simulated = info.simulated;
  detail::g_driver.store(&api, std::memory_order_release);  // last: a non-null pointer means usable
}

void probe_locked(DriverState& s) {
  if (s.probed) return;
  if (s.injected != nullptr) {
    start(s, *s.injected);
  } else {
    load_library(s);
    if (s.info.problem.empty()) start(s, s.loaded);
  }
  s.probed = true;
}

}  // namespace

const DriverInfo& driver_info() {
  DriverState& s = state();
  const std::lock_guard lock(s.mutex);
  probe_locked(s);
  return s.info;
}

const cu::DriverApi& detail::find_driver() {
  if (forked_after_use())
    throw GpuUnavailable(
        "CUDA cannot be used in a forked child process: the parent had already used the GPU. "
        "Use the 'spawn' start method (multiprocessing.set_start_method('spawn')), or fork before "
        "the first GPU call");
  const DriverInfo& info = driver_info();
  if (const cu::DriverApi* api = g_driver.load(std::memory_order_acquire)) return *api;
  throw GpuUnavailable(info.problem);
}

bool forked_after_use() noexcept { return g_forked.load(std::memory_order_relaxed); }

bool driver_is_simulated() noexcept { return g_simulated.load(std::memory_order_relaxed); }

void set_driver_for_testing(const cu::DriverApi* api) {
  Context::forget_all_for_testing();
  DriverState& s = state();
  const std::lock_guard lock(s.mutex);
  s.injected = api;
  s.probed = false;
  s.info = DriverInfo{};
  detail::g_driver = nullptr;
  g_forked = false;
  g_simulated = false;
}

}  // namespace gpk::inline core
