#include "sim/driver/machine.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace gpk::sim::driver {
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
    {kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available: the simulator runs PTX, not machine code"},
    {kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE", "operation not permitted in the present state"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch never ends"},
    {kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {kAssert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {kIllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "an illegal instruction was encountered"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kStreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {kInvalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
    {kInvalidResourceType, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type"},
    {kInvalidResourceConfiguration, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
     "invalid resource configuration"},
};

const ErrorText* find_error(Result code) {
  for (const ErrorText& row : kErrors)
    if (row.code == code) return &row;
  return nullptr;
}

// PYGPUKIT_SIM_DEVICE, or what follows "sim:" in PYGPUKIT_DEVICE.
std::string device_text() {
  if (const char* text = std::getenv("PYGPUKIT_SIM_DEVICE"); text != nullptr && *text != '\0')
    return text;
  const char* device = std::getenv("PYGPUKIT_DEVICE");
  const std::string text = device == nullptr ? "" : device;
  return text.find("sim:") == 0 ? text.substr(4) : std::string();
}

}  // namespace

Machine::Machine() {
  options.log = 1;
  const char* level = std::getenv("PYGPUKIT_LOG");
  if (level != nullptr && std::string(level) == "off") options.log = 0;
  try {
    devices = parse_device_models(device_text());
  } catch (const std::invalid_argument& error) {
    problem = error.what();
  }
  primary.resize(devices.size());
}

namespace {

// A forked child has none of the streams' threads: their queues start anew, without what was in
// them. The lock is held across the fork, so that everything else is consistent.
void enter_child() {
  Machine& m = machine();
  static_cast<void>(m.progress.release());
  m.progress = std::make_unique<std::condition_variable>();
  for (auto& [handle, stream] : m.streams) stream->queue = make_queue();
  for (const auto& context : m.primary)
    if (context != nullptr) context->legacy.queue = make_queue();
  for (auto& [handle, event] : m.events) event->ticket = {};
  m.mutex.unlock();
}

}  // namespace

Machine& machine() {
  static auto* instance = new Machine;
  static const int guarded =
      pthread_atfork([] { machine().mutex.lock(); }, [] { machine().mutex.unlock(); }, enter_child);
  static_cast<void>(guarded);
  return *instance;
}

Call::Call(Need need) : lock_(machine().mutex) {
  if (need == Need::kNothing) return;
  if (!machine().initialized) {
    refused_ = kNotInitialized;
  } else if (need != Need::kInit) {
    const SimContext* context = current_context();
    if (context != nullptr)
      refused_ = context->lost;
    else if (need == Need::kContext)
      refused_ = kInvalidContext;
  }
}

void Call::wait_for_device(int device) {
  std::vector<Ticket> tails;
  for (auto& [handle, stream] : machine().streams)
    if (stream->device == device) tails.push_back(stream->queue->tail());
  if (const SimContext* context = context_of(device))
    tails.push_back(context->legacy.queue->tail());
  wait([&] {
    for (const Ticket& tail : tails)
      if (!reached(tail)) return false;
    return true;
  });
}

Result cuInit(unsigned flags) {
  const Call call(Need::kNothing);
  if (flags != 0) return kInvalidValue;
  Machine& m = machine();
  if (m.devices.empty()) {
    if (!m.problem.empty()) std::fprintf(stderr, "pygpukit: %s\n", m.problem.c_str());
    return kNoDevice;
  }
  m.initialized = true;
  return kSuccess;
}

Result cuDriverGetVersion(int* version) {
  *version = machine().driver_version;
  return kSuccess;
}

Result cuGetErrorName(Result error, const char** text) {
  const ErrorText* row = find_error(error);
  *text = row == nullptr ? nullptr : row->name;
  return row == nullptr ? kInvalidValue : kSuccess;
}

// For the error that lost a context: its finding, which says more than the code.
Result cuGetErrorString(Result error, const char** text) {
  const Call call(Need::kNothing);
  const ErrorText* row = find_error(error);
  *text = row == nullptr ? nullptr : row->text;
  const SimContext* context = current_context();
  if (context != nullptr && error != kSuccess && context->lost == error) {
    thread_local std::string kept;
    kept = machine().fault;
    if (!kept.empty()) *text = kept.c_str();
  }
  return *text == nullptr ? kInvalidValue : kSuccess;
}

}  // namespace gpk::sim::driver
