// What the transfer engine (runtime/transfer/transfer_engine.h) runs on: the driver's copy engines,
// or memcpy in CPU simulation.
#pragma once

#include <memory>

#include "core/device.h"
#include "core/driver_api.h"
#include "runtime/transfer/transfer_device.h"

namespace gpk::inline core {
class Stream;
}

namespace gpk::device {

class DeviceCopies : public runtime::CopyDevice {
 public:
  // An event after everything submitted to `stream` so far, for SubmitOptions::after.
  virtual EventId record_stream(const Stream& stream) = 0;
};

// Throws GpuUnavailable / CudaError.
std::unique_ptr<DeviceCopies> make_device_copies(Device device);

}  // namespace gpk::device
