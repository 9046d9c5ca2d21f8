#include "core/nvtx.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>

#include "core/library.h"
#include "core/log.h"
#include "core/text.h"

namespace gpk::nvtx {

namespace detail {
std::atomic<PushFunction> g_push{nullptr};
std::atomic<PopFunction> g_pop{nullptr};
}  // namespace detail

namespace {

using AnyFunction = void (*)();

// The slots of NVTX's "core" module that a tool may fill, by callback id. We offer all of them, so
// that a tool finds the table it expects, and use two.
constexpr unsigned kRangePushA = 9;
constexpr unsigned kRangePop = 11;
constexpr unsigned kNumCoreSlots = 16;
AnyFunction g_slots[kNumCoreSlots];
AnyFunction* g_core_table[kNumCoreSlots + 1];

constexpr int kModuleCore = 1;
constexpr std::uint32_t kTableCallbacks = 1;
constexpr std::uint32_t kTableVersionInfo = 3;

int get_module_function_table(int module, AnyFunction*** table, unsigned* size) {
  if (module != kModuleCore) return 0;
  for (unsigned i = 0; i < kNumCoreSlots; ++i) g_core_table[i] = &g_slots[i];
  if (table != nullptr) *table = g_core_table;
  if (size != nullptr) *size = kNumCoreSlots;
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
      log_message(LogLevel::kInfo, cat("nvtx: ", path, " does not listen ", why));
      return;
    }
    detail::g_pop = reinterpret_cast<detail::PopFunction>(g_slots[kRangePop]);
    detail::g_push = reinterpret_cast<detail::PushFunction>(g_slots[kRangePushA]);
  });
}

}  // namespace gpk::nvtx
