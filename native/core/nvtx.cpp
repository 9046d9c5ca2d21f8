#include "core/nvtx.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>

#include "base/text.h"
#include "core/library.h"
#include "core/log.h"

namespace gpk::inline core::nvtx {

namespace detail {
std::atomic<PushFunction> g_push{nullptr};
std::atomic<PopFunction> g_pop{nullptr};
}  // namespace detail

namespace {

using AnyFunction = void (*)();

// The function tables of NVTX, by module id, with their sizes. A tool expects a table for each
// module; we provide all and call two functions of the first.
constexpr unsigned kNumFunctions[] = {0, 16, 9, 15,
                                      9, 16, 13};  // -, core, CUDA, OpenCL, cudart, core2, sync
constexpr int kNumModules = 7;
constexpr unsigned kMaxFunctions = 16;
constexpr int kCore = 1;
constexpr unsigned kRangePushA = 9;
constexpr unsigned kRangePop = 11;
AnyFunction g_functions[kNumModules][kMaxFunctions];
AnyFunction* g_tables[kNumModules]
                     [kMaxFunctions + 1];  // entry 0 and the one past the end stay null

constexpr std::uint32_t kTableCallbacks = 1;
constexpr std::uint32_t kTableVersionInfo = 3;

int get_module_function_table(int module, AnyFunction*** table, unsigned* size) {
  if (module < 1 || module >= kNumModules) return 0;
  for (unsigned i = 1; i < kNumFunctions[module]; ++i)
    g_tables[module][i] = &g_functions[module][i];
  if (table != nullptr) *table = g_tables[module];
  if (size != nullptr) *size = kNumFunctions[module];
  return 1;
}

struct CallbackTable {
  std::size_t struct_bytes;
  int (*get_module_function_table)(int, AnyFunction***, unsigned*);
};

struct VersionTable {
  std::size_t struct_bytes;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_injection_version)(std::uint32_t);
};

const void* get_export_table(std::uint32_t id) {
  static const CallbackTable callbacks{sizeof(CallbackTable), get_module_function_table};
  static const VersionTable version{sizeof(VersionTable), 3, 0, [](std::uint32_t) {}};
  if (id == kTableCallbacks) return &callbacks;
  if (id == kTableVersionInfo) return &version;
  return nullptr;
}

}  // namespace

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");  // NVTX's own variable, not ours
    if (path == nullptr || *path == '\0') return;
    std::string why;
    const SharedLibrary library = SharedLibrary::open(path, &why);
    using Initialize = int (*)(const void* (*)(std::uint32_t));
    auto start = reinterpret_cast<Initialize>(library.symbol("InitializeInjectionNvtx2"));
    if (start == nullptr || start(get_export_table) == 0) {
      log_message(LogLevel::kInfo, cat("nvtx: ", path, " could not be initialised ", why));
      return;
    }
    detail::g_pop = reinterpret_cast<detail::PopFunction>(g_functions[kCore][kRangePop]);
    detail::g_push = reinterpret_cast<detail::PushFunction>(g_functions[kCore][kRangePushA]);
  });
}

}  // namespace gpk::inline core::nvtx
