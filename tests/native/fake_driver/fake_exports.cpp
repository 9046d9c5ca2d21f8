// What libgpk_fake_cuda.so exports: the driver's entry points, found as in a real libcuda, and
// gpk_fake_* functions to steer and inspect the fake from Python's ctypes.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "fake_driver/fake_state.h"

#ifdef _WIN32
#define GPK_FAKE_EXPORT extern "C" __declspec(dllexport)
#else
#define GPK_FAKE_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {

struct Symbol {
  const char* name;
  int version;
  void* address;
};

const std::vector<Symbol>& symbols() {
  static const auto* all = new std::vector<Symbol>{
#define GPK_CU(name, version, symbol, need, params) \
  {#name, version, reinterpret_cast<void*>(fake::api().name)},
#include "core/driver_functions.def"
#undef GPK_CU
  };
  return *all;
}

template <class Function>
int returning_status(const Function& function) {
  try {
    function();
    return 0;
  } catch (const std::exception&) {  // an unknown name
    return -1;
  }
}

// Copies at most `size` bytes; returns how many there are.
int copy_out(const void* bytes, std::size_t count, void* out, int size) {
  if (out != nullptr && size > 0)
    std::memcpy(out, bytes, std::min(count, static_cast<std::size_t>(size)));
  return static_cast<int>(count);
}

const fake::Launch* find_launch(int index) {
  const auto& all = fake::state().launches;
  if (index < 0 || static_cast<std::size_t>(index) >= all.size()) return nullptr;
  return &all[static_cast<std::size_t>(index)];
}

}  // namespace

// --- The driver --------------------------------------------------------------------------------

GPK_FAKE_EXPORT int cuInit(unsigned flags) { return fake::api().cuInit(flags); }

GPK_FAKE_EXPORT int cuDriverGetVersion(int* version) {
  return fake::api().cuDriverGetVersion(version);
}

GPK_FAKE_EXPORT int cuGetProcAddress_v2(const char* name, void** address, int version,
                                        std::uint64_t, int* status) {
  int driver_version = 0;
  fake::api().cuDriverGetVersion(&driver_version);
  *address = nullptr;
  for (const Symbol& symbol : symbols()) {
    if (std::strcmp(symbol.name, name) != 0) continue;
    const bool new_enough = symbol.version <= std::min(version, driver_version);
    if (new_enough) *address = symbol.address;
    if (status != nullptr) *status = new_enough ? 0 : 2;  // VERSION_NOT_SUFFICIENT
    return new_enough ? gpk::cu::kSuccess : gpk::cu::kNotFound;
  }
  if (status != nullptr) *status = 1;  // SYMBOL_NOT_FOUND
  return gpk::cu::kNotFound;
}

// --- Settings; 0, or -1 for an unknown name ----------------------------------------------------

// Forgets logs, settings of kernels and injected errors; objects, memory and devices stay.
GPK_FAKE_EXPORT void gpk_fake_reset() { fake::clear(); }

GPK_FAKE_EXPORT void gpk_fake_set_driver_version(int version) { fake::set_driver_version(version); }

// One device with these traits. Before the driver is used.
GPK_FAKE_EXPORT void gpk_fake_set_device(const char* name, int sm, int num_sms,
                                         std::uint64_t memory_bytes) {
  fake::set_devices({{.name = name, .sm = sm, .num_sms = num_sms, .memory_bytes = memory_bytes}});
}

// `count` devices with the default traits (0: none). Before the driver is used.
GPK_FAKE_EXPORT void gpk_fake_set_num_devices(int count) {
  fake::set_devices(std::vector<fake::DeviceConfig>(static_cast<std::size_t>(std::max(count, 0))));
}

GPK_FAKE_EXPORT void gpk_fake_set_memory(int device, std::uint64_t bytes) {
  returning_status([&] { fake::set_memory_bytes(device, bytes); });
}

GPK_FAKE_EXPORT void gpk_fake_set_param_sizes(const char* function, const std::size_t* sizes_bytes,
                                              int count) {
  fake::set_param_sizes(function, std::vector<std::size_t>(sizes_bytes, sizes_bytes + count));
}

GPK_FAKE_EXPORT void gpk_fake_set_missing(const char* function) { fake::set_missing(function); }

GPK_FAKE_EXPORT void gpk_fake_set_global(const char* variable, std::size_t bytes) {
  fake::set_global(variable, bytes);
}

GPK_FAKE_EXPORT int gpk_fake_fail_next(const char* function, int code) {
  return returning_status([&] { fake::fail_next(function, code); });
}

GPK_FAKE_EXPORT int gpk_fake_fail_always(const char* function, int code) {
  return returning_status([&] { fake::fail_always(function, code); });
}

GPK_FAKE_EXPORT void gpk_fake_fail_module_load(int code, const char* log) {
  fake::fail_module_load(code, log);
}

// A busy stream's work is not done until it is set free or synchronized.
GPK_FAKE_EXPORT void gpk_fake_set_busy(std::uint64_t stream, int busy) {
  fake::set_busy(reinterpret_cast<gpk::cu::Stream>(static_cast<std::uintptr_t>(stream)), busy != 0);
}

// Multiprocessors of the stream's green context; 0: it has none.
GPK_FAKE_EXPORT unsigned gpk_fake_stream_sms(std::uint64_t stream) {
  return fake::stream_info(reinterpret_cast<gpk::cu::Stream>(static_cast<std::uintptr_t>(stream)))
      .num_sms;
}

GPK_FAKE_EXPORT int gpk_fake_stream_priority(std::uint64_t stream) {
  return fake::stream_info(reinterpret_cast<gpk::cu::Stream>(static_cast<std::uintptr_t>(stream)))
      .priority;
}

GPK_FAKE_EXPORT void gpk_fake_advance_ms(double ms) { fake::advance_ms(ms); }

// --- Inspection --------------------------------------------------------------------------------

// kind: "stream", "event", "module", "graph", "graph_exec", "memory", "pinned", "green_context"; -1
// for others.
GPK_FAKE_EXPORT long long gpk_fake_live_objects(const char* kind) {
  using fake::Kind;
  static constexpr std::pair<const char*, Kind> kKinds[] = {
      {"stream", Kind::kStream},        {"event", Kind::kEvent},
      {"module", Kind::kModule},        {"graph", Kind::kGraph},
      {"memory", Kind::kMemory},        {"pinned", Kind::kPinned},
      {"graph_exec", Kind::kGraphExec}, {"green_context", Kind::kGreenContext},
  };
  for (const auto& [name, value] : kKinds)
    if (std::strcmp(name, kind) == 0) return static_cast<long long>(fake::num_live(value));
  return -1;
}

GPK_FAKE_EXPORT std::uint64_t gpk_fake_used_bytes(int device) { return fake::used_bytes(device); }

// Calls of a driver function since the last reset; -1 for an unknown name.
GPK_FAKE_EXPORT long long gpk_fake_num_calls(const char* function) {
  long long count = -1;
  returning_status([&] { count = static_cast<long long>(fake::num_calls(function)); });
  return count;
}

GPK_FAKE_EXPORT int gpk_fake_num_launches() {
  const std::lock_guard lock(fake::mutex());
  return static_cast<int>(fake::state().launches.size());
}

// The kernel's name, NUL included where it fits; returns the bytes needed, -1 for a bad index.
GPK_FAKE_EXPORT int gpk_fake_launch_name(int index, char* out, int size) {
  const std::lock_guard lock(fake::mutex());
  const fake::Launch* launch = find_launch(index);
  if (launch == nullptr) return -1;
  return copy_out(launch->function.c_str(), launch->function.size() + 1, out, size);
}

// numbers[11]: grid, block, cluster, dynamic shared bytes, flags (1 cooperative, 2 programmatic, 4
// replayed by a graph). Returns the number of arguments, -1 for a bad index.
GPK_FAKE_EXPORT int gpk_fake_launch_info(int index, std::uint32_t* numbers, std::uint64_t* stream) {
  const std::lock_guard lock(fake::mutex());
  const fake::Launch* launch = find_launch(index);
  if (launch == nullptr) return -1;
  for (int axis = 0; axis < 3; ++axis) {
    numbers[axis] = launch->grid[axis];
    numbers[3 + axis] = launch->block[axis];
    numbers[6 + axis] = launch->cluster[axis];
  }
  numbers[9] = launch->shared_bytes;
  numbers[10] = (launch->cooperative ? 1u : 0u) | (launch->programmatic ? 2u : 0u) |
                (launch->from_graph ? 4u : 0u);
  *stream = reinterpret_cast<std::uint64_t>(launch->stream);
  return static_cast<int>(launch->args.size());
}

// The bytes of one argument; returns how many there are, -1 for a bad index.
GPK_FAKE_EXPORT int gpk_fake_launch_arg(int index, int arg, void* out, int size) {
  const std::lock_guard lock(fake::mutex());
  const fake::Launch* launch = find_launch(index);
  if (launch == nullptr || arg < 0 || static_cast<std::size_t>(arg) >= launch->args.size())
    return -1;
  const auto& bytes = launch->args[static_cast<std::size_t>(arg)];
  return copy_out(bytes.data(), bytes.size(), out, size);
}
