// Devices and their primary contexts.
#include <cstdio>
#include <cstring>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

struct CurrentContext {
  std::uint64_t epoch = 0;
  cu::Context handle = nullptr;
};

CurrentContext& thread_context() {
  thread_local CurrentContext current;
  return current;
}

const DeviceConfig* find_device(cu::Device device) {
  const auto& all = state().devices;
  if (device < 0 || static_cast<std::size_t>(device) >= all.size()) return nullptr;
  return &all[static_cast<std::size_t>(device)];
}

constexpr int kOldShared = 163 * 1024;  // SM 80 and 86 alike
constexpr int kNewShared = 227 * 1024;  // SM 90

}  // namespace

void set_devices(std::vector<DeviceConfig> devices) {
  const std::lock_guard lock(mutex());
  state().devices = std::move(devices);
}

void set_memory_bytes(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  state().devices.at(static_cast<std::size_t>(device)).memory_bytes = bytes;
}

FakeContext* current_context() {
  const CurrentContext& current = thread_context();
  return current.epoch == state().epoch ? state().contexts.find(current.handle) : nullptr;
}

namespace impl {

Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(state().devices.size());
  return kSuccess;
}

Result cuDeviceGet(Device* device, int ordinal) {
  if (find_device(ordinal) == nullptr) return 101;  // CUDA_ERROR_INVALID_DEVICE
  *device = ordinal;
  return kSuccess;
}

Result cuDeviceGetName(char* text, int size, Device device) {
  const DeviceConfig* config = find_device(device);
  if (config == nullptr) return 101;
  std::snprintf(text, static_cast<std::size_t>(size), "%s", config->name.c_str());
  return kSuccess;
}

Result cuDeviceTotalMem(std::size_t* bytes, Device device) {
  const DeviceConfig* config = find_device(device);
  if (config == nullptr) return 101;
  *bytes = config->memory_bytes;
  return kSuccess;
}

Result cuDeviceGetAttribute(int* value, int attribute, Device device) {
  const DeviceConfig* config = find_device(device);
  if (config == nullptr) return 101;
  switch (attribute) {
    case kAttrMaxThreadsPerBlock:
    case kAttrMaxBlockDimX:
    case kAttrMaxBlockDimY: *value = 1024; break;
    case kAttrMaxBlockDimZ: *value = 64; break;
    case kAttrMaxGridDimX: *value = 2147483647; break;
    case kAttrMaxGridDimY:
    case kAttrMaxGridDimZ: *value = 65535; break;
    case kAttrMaxSharedPerBlock: *value = 48 * 1024; break;
    case kAttrWarpSize: *value = 32; break;
    case kAttrMultiprocessorCount: *value = config->num_sms; break;
    case kAttrL2CacheBytes: *value = 50 << 20; break;
    case kAttrMaxThreadsPerSm: *value = 2048; break;
    case kAttrComputeCapabilityMajor: *value = config->sm / 10; break;
    case kAttrComputeCapabilityMinor: *value = config->sm % 10; break;
    case kAttrMaxSharedPerSm: *value = (config->sm >= 90 ? kNewShared : kOldShared) + 1024; break;
    case kAttrMaxSharedPerBlockOptin: *value = config->sm >= 90 ? kNewShared : kOldShared; break;
    case kAttrCooperativeLaunch: *value = 1; break;
    case kAttrVirtualMemory: *value = config->virtual_memory ? 1 : 0; break;
    case kAttrClusterLaunch: *value = config->sm >= 90 ? 1 : 0; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}

Result cuDeviceGetPCIBusId(char* text, int size, Device device) {
  if (find_device(device) == nullptr) return 101;
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", device + 1);
  return kSuccess;
}

Result cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  const DeviceConfig* a = find_device(device);
  const DeviceConfig* b = find_device(peer);
  if (a == nullptr || b == nullptr) return 101;
  *can = a != b && a->can_access_peers && b->can_access_peers ? 1 : 0;
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  if (find_device(device) == nullptr) return 101;
  Context& primary = state().primary[device];
  if (primary == nullptr) {
    auto made = std::make_unique<FakeContext>();
    made->device = device;
    made->legacy.device = device;
    primary = state().contexts.add(std::move(made));
  }
  *context = primary;
  return kSuccess;
}

Result cuCtxGetCurrent(Context* context) {
  *context = current_context() == nullptr ? nullptr : thread_context().handle;
  return kSuccess;
}

Result cuCtxSetCurrent(Context context) {
  if (context != nullptr && state().contexts.find(context) == nullptr) return kInvalidContext;
  thread_context() = {state().epoch, context};
  return kSuccess;
}

Result cuCtxSynchronize() {
  FakeContext* context = current_context();
  if (context == nullptr) return kInvalidContext;
  if (break_captures_of(context->device)) return kStreamCaptureUnsupported;
  context->legacy.busy = false;
  for (auto& [handle, stream] : state().streams)
    if (stream->device == context->device) stream->busy = false;
  return kSuccess;
}

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (current_context() == nullptr) return kInvalidContext;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kSuccess;
}

Result cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  FakeContext* context = current_context();
  const FakeContext* other = state().contexts.find(peer);
  if (context == nullptr || other == nullptr || other == context) return kInvalidContext;
  if (flags != 0) return kInvalidValue;
  int can = 0;
  cuDeviceCanAccessPeer(&can, context->device, other->device);
  if (can == 0) return 217;  // CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
  return context->peers.insert(peer).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

}  // namespace impl
}  // namespace fake
