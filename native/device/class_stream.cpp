#include "device/class_stream.h"

#include "core/context.h"
#include "core/stream_tenant.h"
#include "device/device_sharing.h"
#include "runtime/scheduler/qos_enforcement.h"

namespace gpk::device {
namespace {

constexpr std::int64_t kSliceNs = 500'000;

LaunchGate::Options gate_options(const DeviceSharing& sharing, runtime::QosClass qos,
                                 const PartitionCore* partition) {
  const runtime::QosEnforcement rules = runtime::enforcement(qos);
  LaunchGate::Options options;
  options.max_in_flight = rules.max_in_flight;
  options.yields = rules.yields;
  options.in_foreground = !rules.yields;
  options.slice_ns = rules.yields ? kSliceNs : 0;
  options.foreground = sharing.foreground();
  if (partition != nullptr && partition->compute == ComputeLimit::kPacing) {
    options.pacer = sharing.pacer();
    options.member = partition->member;
  }
  return options;
}

}  // namespace

int class_priority(const DeviceSharing& sharing, runtime::QosClass qos) {
  const Context* context = sharing.context();
  return context == nullptr ? 0 : runtime::stream_priority(qos, 0, context->greatest_priority());
}

std::shared_ptr<Stream> make_class_stream(std::shared_ptr<DeviceSharing> sharing,
                                          runtime::QosClass qos,
                                          std::shared_ptr<PartitionCore> partition) {
  const Device device = sharing->device();
  auto tenant = std::make_unique<StreamTenant>();
  if (partition != nullptr) {
    tenant->green = partition->green;
    if (partition->request.bandwidth > 0.0) tenant->bandwidth_member = partition->member;
  }
  std::shared_ptr<Stream> stream;
  if (device.is_cuda()) {
    stream = Stream::create_in(device, tenant->green, class_priority(*sharing, qos));
    tenant->gate = std::make_unique<LaunchGate>(*sharing->context(), stream->handle(),
                                                gate_options(*sharing, qos, partition.get()));
  } else {
    stream = Stream::create(device, StreamPriority::kLow);
  }
  if (partition != nullptr) {
    tenant->owner = std::move(partition);
  } else {
    tenant->owner = std::move(sharing);
  }
  stream->set_tenant(std::move(tenant));
  return stream;
}

}  // namespace gpk::device
