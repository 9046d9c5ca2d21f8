#include "fake_driver/fake_driver.h"

#include <stdexcept>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

constexpr const char* kCallNames[] = {
#define GPK_CU(name, version, symbol, need, params) #name,
#include "core/driver_functions.def"
#undef GPK_CU
};

// Calls that a lost context does not change.
bool works_when_lost(int id) {
  switch (id) {
    case k_cuInit:
    case k_cuDriverGetVersion:
    case k_cuGetErrorName:
    case k_cuGetErrorString:
    case k_cuDeviceGetCount:
    case k_cuDeviceGet:
    case k_cuDeviceGetName:
    case k_cuDeviceTotalMem:
    case k_cuDeviceGetAttribute:
    case k_cuDeviceGetPCIBusId:
    case k_cuDeviceCanAccessPeer:
    case k_cuCtxGetCurrent:
    case k_cuCtxSetCurrent:
    case k_cuThreadExchangeStreamCaptureMode: return true;
    default: return false;
  }
}

// Calls allowed before cuInit.
bool works_before_init(int id) {
  return id == k_cuInit || id == k_cuDriverGetVersion || id == k_cuGetErrorName ||
         id == k_cuGetErrorString;
}

Result enter(int id) {
  State& s = state();
  ++s.num_calls[id];
  if (!s.initialized && !works_before_init(id)) return cu::kNotInitialized;
  if (const auto found = s.settings.failures.find(id); found != s.settings.failures.end()) {
    const auto [code, once] = found->second;
    if (once) s.settings.failures.erase(found);
    if (FakeContext* context = current_context(); context != nullptr && is_sticky(code))
      context->lost = code;
    return code;
  }
  if (works_when_lost(id)) return cu::kSuccess;
  const FakeContext* context = current_context();
  return context == nullptr ? cu::kSuccess : context->lost;
}

template <auto kFunction, int kId>
struct Entry;

template <class... Args, Result (*kFunction)(Args...), int kId>
struct Entry<kFunction, kId> {
  static Result call(Args... args) {
    const std::lock_guard lock(mutex());
    if (const Result result = enter(kId); result != cu::kSuccess) return result;
    return kFunction(args...);
  }
};

cu::DriverApi make_api() {
  cu::DriverApi table;
#define GPK_CU(name, version, symbol, need, params) table.name = Entry<&impl::name, k_##name>::call;
#include "core/driver_functions.def"
#undef GPK_CU
  return table;
}

void set_failure(const std::string& function, Result code, bool once) {
  const int id = call_id(function);
  const std::lock_guard lock(mutex());
  state().settings.failures[id] = {code, once};
}

std::unique_ptr<State>& state_slot() {
  static auto* slot = new std::unique_ptr<State>(new State);  // outlives handles dropped at exit
  return *slot;
}

}  // namespace

std::mutex& mutex() {
  static auto* instance = new std::mutex;
  return *instance;
}

State& state() { return *state_slot(); }

CallId call_id(const std::string& function) {
  for (int id = 0; id < kNumCalls; ++id)
    if (function == kCallNames[id]) return static_cast<CallId>(id);
  throw std::invalid_argument("fake driver: there is no function " + function);
}

bool is_sticky(Result result) {
  return result == cu::kContained || result == 700 || result == 702 || result == 710 ||
         (result >= 714 && result <= 719) || result == 721;
}

const cu::DriverApi& api() {
  static const cu::DriverApi table = make_api();
  return table;
}

void reset() {
  const std::lock_guard lock(mutex());
  const std::uint64_t epoch = state().epoch + 1;
  state_slot() = std::make_unique<State>();
  state().epoch = epoch;
}

void clear() {
  const std::lock_guard lock(mutex());
  State& s = state();
  s.settings = Settings{};
  s.launches.clear();
  s.stream_calls.clear();
  for (std::size_t& count : s.num_calls) count = 0;
  for (auto& [handle, context] : s.contexts) context->lost = cu::kSuccess;
}

void set_driver_version(int version) {
  const std::lock_guard lock(mutex());
  state().driver_version = version;
}

void fail_next(const std::string& function, Result code) { set_failure(function, code, true); }
void fail_always(const std::string& function, Result code) { set_failure(function, code, false); }

void advance_ms(double ms) {
  const std::lock_guard lock(mutex());
  state().clock_ms += ms;
}

std::size_t num_live(Kind kind) {
  const std::lock_guard lock(mutex());
  const State& s = state();
  switch (kind) {
    case Kind::kStream: return s.streams.size();
    case Kind::kEvent: return s.events.size();
    case Kind::kModule: return s.modules.size();
    case Kind::kGraph: return s.graphs.size();
    case Kind::kGraphExec: return s.execs.size();
    case Kind::kMemory: return s.memory.size() + s.virtual_memory.chunks.size();
    case Kind::kPinned: return s.pinned.size();
    case Kind::kGreenContext: return s.greens.size();
  }
  return 0;
}

std::size_t num_calls(const std::string& function) {
  const int id = call_id(function);
  const std::lock_guard lock(mutex());
  return state().num_calls[id];
}

std::vector<Launch> launches() {
  const std::lock_guard lock(mutex());
  return state().launches;
}

std::vector<StreamCall> stream_calls() {
  const std::lock_guard lock(mutex());
  return state().stream_calls;
}

namespace impl {

Result cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  if (state().devices.empty()) return kNoDevice;
  state().initialized = true;
  return kSuccess;
}

Result cuDriverGetVersion(int* version) {
  *version = state().driver_version;
  return kSuccess;
}

namespace {
struct ErrorText {
  Result code;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
};
}  // namespace

Result cuGetErrorName(Result error, const char** text) {
  for (const ErrorText& row : kErrors)
    if (row.code == error) return *text = row.name, kSuccess;
  *text = nullptr;
  return kInvalidValue;
}

Result cuGetErrorString(Result error, const char** text) {
  for (const ErrorText& row : kErrors)
    if (row.code == error) return *text = row.text, kSuccess;
  *text = nullptr;
  return kInvalidValue;
}

}  // namespace impl
}  // namespace fake
