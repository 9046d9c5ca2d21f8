// Green contexts: subsets of a device's multiprocessors. They limit nothing here: a grid runs on
// the host's threads.
#include <algorithm>
#include <cstring>

#include "base/round_up.h"
#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

// What a resource keeps in its internal bytes.
struct Origin {
  int device = 0;
  int split = 0;  // 0: the whole device
};

Origin origin_of(const DevResource& resource) {
  Origin origin;
  std::memcpy(&origin, resource.internal, sizeof origin);
  return origin;
}

DevResource make_resource(Origin origin, unsigned num_sms) {
  DevResource resource{};
  resource.type = kResourceSm;
  resource.sm_count = num_sms;
  std::memcpy(resource.internal, &origin, sizeof origin);
  return resource;
}

}  // namespace

Result cuDeviceGetDevResource(Device device, DevResource* resource, int type) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const DeviceModel* model = find_device(device);
  if (model == nullptr) return kInvalidDevice;
  if (type != kResourceSm) return kInvalidResourceType;
  *resource = make_resource({device, 0}, static_cast<unsigned>(model->num_sms));
  return kSuccess;
}

Result cuDevSmResourceSplitByCount(DevResource* groups, unsigned* num_groups,
                                   const DevResource* input, DevResource* remaining, unsigned flags,
                                   unsigned min_count) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  if (input->type != kResourceSm) return kInvalidResourceType;
  Origin origin = origin_of(*input);
  if (origin.split != 0) return kInvalidResourceConfiguration;  // cannot be split again
  if (flags != 0) return kInvalidValue;
  const bool hopper = find_device(origin.device)->sm >= 90;
  const unsigned step = hopper ? 8 : 2;
  const unsigned least = hopper ? 8 : 4;
  const unsigned size = std::max(least, round_up(min_count, step));
  const unsigned possible = input->sm_count / size;
  if (groups == nullptr) {
    *num_groups = possible;
    return kSuccess;
  }
  *num_groups = std::min(*num_groups, possible);
  origin.split = ++machine().num_splits;
  for (unsigned i = 0; i < *num_groups; ++i) groups[i] = make_resource(origin, size);
  if (remaining != nullptr)
    *remaining = make_resource(origin, input->sm_count - *num_groups * size);
  return kSuccess;
}

Result cuDevResourceGenerateDesc(ResourceDesc* desc, DevResource* resources,
                                 unsigned num_resources) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  if (num_resources == 0) return kInvalidValue;
  auto made = std::make_shared<SmSet>();
  const Origin first = origin_of(resources[0]);
  made->device = first.device;
  for (unsigned i = 0; i < num_resources; ++i) {
    const Origin origin = origin_of(resources[i]);
    if (origin.device != first.device || origin.split != first.split)
      return kInvalidResourceConfiguration;
    made->num_sms += resources[i].sm_count;
  }
  *desc = machine().descs.add(std::move(made));
  return kSuccess;
}

Result cuGreenCtxCreate(GreenCtx* green, ResourceDesc desc, Device device, unsigned flags) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SmSet* found = machine().descs.find(desc);
  if (found == nullptr || found->device != device || flags != kGreenDefaultStream)
    return kInvalidValue;
  *green = machine().greens.add(std::make_shared<SmSet>(*found));
  return kSuccess;
}

Result cuGreenCtxDestroy(GreenCtx green) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  return machine().greens.erase(green) ? kSuccess : kInvalidContext;
}

Result cuGreenCtxGetDevResource(GreenCtx green, DevResource* resource, int type) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SmSet* found = machine().greens.find(green);
  if (found == nullptr) return kInvalidContext;
  if (type != kResourceSm) return kInvalidResourceType;
  *resource = make_resource({found->device, 0}, found->num_sms);
  return kSuccess;
}

Result cuGreenCtxStreamCreate(Stream* stream, GreenCtx green, unsigned flags, int priority) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SmSet* found = machine().greens.find(green);
  if (found == nullptr) return kInvalidContext;
  if (flags != kStreamNonBlocking || context_of(found->device) == nullptr) return kInvalidValue;
  auto made = make_stream(found->device, flags, priority);
  made->num_sms = found->num_sms;
  *stream = machine().streams.add(std::move(made));
  return kSuccess;
}

}  // namespace gpk::sim::driver
