// Streams of the three classes: their priority and their gate by runtime::enforcement(), the one
// table, for tasks and partitions alike.
#pragma once

#include <memory>

#include "core/stream.h"
#include "runtime/scheduler/qos.h"

namespace gpk::device {

class DeviceSharing;
class PartitionCore;

// The driver's number; 0 on the CPU.
int class_priority(const DeviceSharing& sharing, runtime::QosClass qos);

// With a partition, on its multiprocessors and in its shares; its class must be `qos`.
std::shared_ptr<Stream> make_class_stream(std::shared_ptr<DeviceSharing> sharing,
                                          runtime::QosClass qos,
                                          std::shared_ptr<PartitionCore> partition = nullptr);

}  // namespace gpk::device
