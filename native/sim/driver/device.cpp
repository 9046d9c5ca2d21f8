// Devices and their primary contexts.
#include <algorithm>
#include <cstdio>

#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

SimContext*& thread_context() {
  thread_local SimContext* current = nullptr;
  return current;
}

Context handle_of(SimContext* context) { return reinterpret_cast<Context>(context); }

bool can_access(Device device, Device peer) {
  return device != peer && find_device(device)->peer_access && find_device(peer)->peer_access;
}

}  // namespace

const DeviceModel* find_device(Device device) {
  const auto& all = machine().devices;
  if (device < 0 || static_cast<std::size_t>(device) >= all.size()) return nullptr;
  return &all[static_cast<std::size_t>(device)];
}

int optin_shared(int device) { return find_device(device)->shared_optin_bytes; }

// None where the thread's own is of a machine that was made anew since.
SimContext* current_context() { return find_context(handle_of(thread_context())); }

SimContext* context_of(int device) {
  return machine().primary[static_cast<std::size_t>(device)].get();
}

SimContext* find_context(Context handle) {
  for (const auto& context : machine().primary)
    if (handle_of(context.get()) == handle) return context.get();
  return nullptr;
}

Result cuDeviceGetCount(int* count) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  *count = static_cast<int>(machine().devices.size());
  return kSuccess;
}

Result cuDeviceGet(Device* device, int ordinal) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  if (find_device(ordinal) == nullptr) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

Result cuDeviceGetName(char* text, int size, Device device) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  const DeviceModel* model = find_device(device);
  if (model == nullptr) return kInvalidDevice;
  std::snprintf(text, static_cast<std::size_t>(size), "%s", model->name.c_str());
  return kSuccess;
}

Result cuDeviceTotalMem(std::size_t* bytes, Device device) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  const DeviceModel* model = find_device(device);
  if (model == nullptr) return kInvalidDevice;
  *bytes = model->memory_bytes;
  return kSuccess;
}

Result cuDeviceGetAttribute(int* value, int attribute, Device device) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  const DeviceModel* model = find_device(device);
  if (model == nullptr) return kInvalidDevice;
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
    case kAttrMultiprocessorCount: *value = model->num_sms; break;
    case kAttrL2CacheBytes: *value = model->l2_bytes; break;
    case kAttrMaxThreadsPerSm: *value = model->threads_per_sm; break;
    case kAttrComputeCapabilityMajor: *value = model->sm / 10; break;
    case kAttrComputeCapabilityMinor: *value = model->sm % 10; break;
    case kAttrMaxSharedPerSm: *value = model->shared_per_sm_bytes; break;
    case kAttrMaxSharedPerBlockOptin: *value = model->shared_optin_bytes; break;
    case kAttrCooperativeLaunch: *value = 1; break;
    case kAttrVirtualMemory: *value = model->virtual_memory ? 1 : 0; break;
    case kAttrClusterLaunch: *value = model->sm >= 90 ? 1 : 0; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}

Result cuDeviceGetPCIBusId(char* text, int size, Device device) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  if (find_device(device) == nullptr) return kInvalidDevice;
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", device + 1);
  return kSuccess;
}

Result cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  if (find_device(device) == nullptr || find_device(peer) == nullptr) return kInvalidDevice;
  *can = can_access(device, peer) ? 1 : 0;
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  if (find_device(device) == nullptr) return kInvalidDevice;
  auto& primary = machine().primary[static_cast<std::size_t>(device)];
  if (primary == nullptr) {
    primary = std::make_unique<SimContext>();
    primary->device = device;
    primary->legacy.device = device;
    primary->legacy.queue = make_queue();
  }
  *context = handle_of(primary.get());
  return kSuccess;
}

Result cuCtxGetCurrent(Context* context) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  *context = handle_of(current_context());
  return kSuccess;
}

Result cuCtxSetCurrent(Context context) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  SimContext* found = context == nullptr ? nullptr : find_context(context);
  if (context != nullptr && found == nullptr) return kInvalidContext;
  thread_context() = found;
  return kSuccess;
}

Result cuCtxSynchronize() {
  Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  SimContext* context = current_context();
  if (break_captures_of(context->device)) return kStreamCaptureUnsupported;
  call.wait_for_device(context->device);
  return context->lost;
}

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kSuccess;
}

Result cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  SimContext* context = current_context();
  const SimContext* other = find_context(peer);
  if (other == nullptr || other == context) return kInvalidContext;
  if (flags != 0) return kInvalidValue;
  if (!can_access(context->device, other->device)) return kPeerAccessUnsupported;
  return context->peers.insert(peer).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

}  // namespace gpk::sim::driver
