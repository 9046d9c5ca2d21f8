// What libgpk_fake_cuda.so exports (exports.map): cuGetProcAddress, which finds the driver's entry
// points, and gpk_fake_* functions to steer and inspect the fake from Python's ctypes.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "fake_driver/fake_state.h"

#define GPK_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Function>
int returning_status(const Function& function) {
  try {
    function();
    return 0;
  } catch (const std::exception&) {  // an unknown name
    return -1;
  }
}

gpk::cu::Stream stream_of(std::uint64_t handle) {
  return reinterpret_cast<gpk::cu::Stream>(static_cast<std::uintptr_t>(handle));
}

const fake::Launch* find_launch(int index) {
  const auto& all = fake::state().launches;
  if (index < 0 || static_cast<std::size_t>(index) >= all.size()) return nullptr;
  return &all[static_cast<std::size_t>(index)];
}

}  // namespace

// --- The driver --------------------------------------------------------------------------------

GPK_FAKE_EXPORT int cuGetProcAddress_v2(const char* name, void** address, int version,
                                        std::uint64_t, int* status) {
  int driver_version = 0;
  fake::api().cuDriverGetVersion(&driver_version);
  *address = nullptr;
  int since = 0;
#define GPK_CU(function, introduced, symbol, need, params)    \
  if (std::strcmp(#function, name) == 0) {                    \
    *address = reinterpret_cast<void*>(fake::api().function); \
    since = introduced;                                       \
  }
#include "core/driver_functions.def"
#undef GPK_CU
  const bool known = *address != nullptr;
  if (since > std::min(version, driver_version)) *address = nullptr;
  if (status != nullptr) *status = !known ? 1 : *address == nullptr ? 2 : 0;
  return *address == nullptr ? gpk::cu::kNotFound : gpk::cu::kSuccess;
}

// --- Settings; 0, or -1 for an unknown name ----------------------------------------------------

GPK_FAKE_EXPORT void gpk_fake_set_driver_version(int version) { fake::set_driver_version(version); }

// One device with these traits. Before the driver is used.
GPK_FAKE_EXPORT void gpk_fake_set_device(const char* name, int sm, int num_sms,
                                         std::uint64_t memory_bytes) {
  fake::set_devices({{.name = name, .sm = sm, .num_sms = num_sms, .memory_bytes = memory_bytes}});
}

GPK_FAKE_EXPORT void gpk_fake_set_param_sizes(const char* function, const std::size_t* sizes_bytes,
                                              int count) {
  fake::set_param_sizes(function, std::vector<std::size_t>(sizes_bytes, sizes_bytes + count));
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
  fake::set_busy(stream_of(stream), busy != 0);
}

// Multiprocessors of the stream's green context; 0: it has none.
GPK_FAKE_EXPORT unsigned gpk_fake_stream_sms(std::uint64_t stream) {
  return fake::stream_info(stream_of(stream)).num_sms;
}

GPK_FAKE_EXPORT int gpk_fake_stream_priority(std::uint64_t stream) {
  return fake::stream_info(stream_of(stream)).priority;
}

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

GPK_FAKE_EXPORT int gpk_fake_num_launches() {
  const std::lock_guard lock(fake::mutex());
  return static_cast<int>(fake::state().launches.size());
}

// numbers[6]: grid, block. Returns the number of arguments, -1 for a bad index.
GPK_FAKE_EXPORT int gpk_fake_launch_info(int index, std::uint32_t* numbers, std::uint64_t* stream) {
  const std::lock_guard lock(fake::mutex());
  const fake::Launch* launch = find_launch(index);
  if (launch == nullptr) return -1;
  std::copy_n(launch->grid, 3, numbers);
  std::copy_n(launch->block, 3, numbers + 3);
  *stream = reinterpret_cast<std::uint64_t>(launch->stream);
  return static_cast<int>(launch->args.size());
}

// At most `size` bytes of one argument; returns how many it has, -1 for a bad index.
GPK_FAKE_EXPORT int gpk_fake_launch_arg(int index, int arg, void* out, int size) {
  const std::lock_guard lock(fake::mutex());
  const fake::Launch* launch = find_launch(index);
  if (launch == nullptr || arg < 0 || static_cast<std::size_t>(arg) >= launch->args.size())
    return -1;
  const auto& bytes = launch->args[static_cast<std::size_t>(arg)];
  std::memcpy(out, bytes.data(), std::min(bytes.size(), static_cast<std::size_t>(size)));
  return static_cast<int>(bytes.size());
}
