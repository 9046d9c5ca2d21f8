// Green contexts: subsets of a device's multiprocessors.
#include <algorithm>
#include <cstring>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

// What a resource keeps in its internal bytes.
struct Origin {
  int device = 0;
  int split = 0;  // 0: the whole device
};

Origin origin_of(const cu::DevResource& resource) {
  Origin origin;
  std::memcpy(&origin, resource.internal, sizeof origin);
  return origin;
}

cu::DevResource make_resource(Origin origin, unsigned num_sms) {
  cu::DevResource resource{};
  resource.type = cu::kResourceSm;
  resource.sm_count = num_sms;
  std::memcpy(resource.internal, &origin, sizeof origin);
  return resource;
}

}  // namespace

namespace impl {

Result cuDeviceGetDevResource(Device device, DevResource* resource, int type) {
  if (device < 0 || static_cast<std::size_t>(device) >= state().devices.size()) return 101;
  if (type != kResourceSm) return kInvalidResourceType;
  const int num_sms = state().devices[static_cast<std::size_t>(device)].num_sms;
  *resource = make_resource({device, 0}, static_cast<unsigned>(num_sms));
  return kSuccess;
}

Result cuDevSmResourceSplitByCount(DevResource* groups, unsigned* num_groups,
                                   const DevResource* input, DevResource* remaining, unsigned flags,
                                   unsigned min_count) {
  if (input->type != kResourceSm) return kInvalidResourceType;
  Origin origin = origin_of(*input);
  if (origin.split != 0) return kInvalidResourceConfiguration;  // cannot be split again
  if (flags != 0) return kInvalidValue;
  const bool hopper = state().devices[static_cast<std::size_t>(origin.device)].sm >= 90;
  const unsigned step = hopper ? 8 : 2;
  const unsigned least = hopper ? 8 : 4;
  const unsigned size = std::max(least, (min_count + step - 1) / step * step);
  const unsigned possible = input->sm_count / size;
  if (groups == nullptr) {
    *num_groups = possible;
    return kSuccess;
  }
  *num_groups = std::min(*num_groups, possible);
  origin.split = ++state().num_splits;
  for (unsigned i = 0; i < *num_groups; ++i) groups[i] = make_resource(origin, size);
  if (remaining != nullptr)
    *remaining = make_resource(origin, input->sm_count - *num_groups * size);
  return kSuccess;
}

Result cuDevResourceGenerateDesc(ResourceDesc* desc, DevResource* resources,
                                 unsigned num_resources) {
  if (num_resources == 0) return kInvalidValue;
  auto made = std::make_unique<FakeDesc>();
  const Origin first = origin_of(resources[0]);
  made->device = first.device;
  for (unsigned i = 0; i < num_resources; ++i) {
    const Origin origin = origin_of(resources[i]);
    if (origin.device != first.device || origin.split != first.split)
      return kInvalidResourceConfiguration;
    made->num_sms += resources[i].sm_count;
  }
  *desc = state().descs.add(std::move(made));
  return kSuccess;
}

Result cuGreenCtxCreate(GreenCtx* green, ResourceDesc desc, Device device, unsigned flags) {
  const FakeDesc* found = state().descs.find(desc);
  if (found == nullptr || found->device != device || flags != kGreenDefaultStream)
    return kInvalidValue;
  auto made = std::make_unique<FakeGreen>();
  made->device = device;
  made->num_sms = found->num_sms;
  *green = state().greens.add(std::move(made));
  return kSuccess;
}

Result cuGreenCtxDestroy(GreenCtx green) {
  return state().greens.erase(green) ? kSuccess : kInvalidContext;
}

Result cuGreenCtxGetDevResource(GreenCtx green, DevResource* resource, int type) {
  const FakeGreen* found = state().greens.find(green);
  if (found == nullptr) return kInvalidContext;
  if (type != kResourceSm) return kInvalidResourceType;
  *resource = make_resource({found->device, 0}, found->num_sms);
  return kSuccess;
}

Result cuGreenCtxStreamCreate(Stream* stream, GreenCtx green, unsigned flags, int priority) {
  const FakeGreen* found = state().greens.find(green);
  if (found == nullptr) return kInvalidContext;
  if (flags != kStreamNonBlocking) return kInvalidValue;
  auto made = std::make_unique<FakeStream>();
  made->device = found->device;
  made->num_sms = found->num_sms;
  made->flags = flags;
  made->priority = priority;
  made->handle = reinterpret_cast<Stream>(made.get());
  *stream = state().streams.add(std::move(made));
  return kSuccess;
}

}  // namespace impl
}  // namespace fake
