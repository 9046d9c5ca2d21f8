#include "core/device_memory.h"

#include "core/context.h"

namespace gpk::inline core {

DeviceMemory& device_memory(Device device) {
  if (device.is_cuda()) return Context::get(device.index).memory();
  static auto* host = make_host_device_memory().release();  // outlives arrays dropped at exit
  return *host;
}

}  // namespace gpk::inline core
