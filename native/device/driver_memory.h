// One GPU as the memory pool sees it: the driver's virtual memory, events and copies.
#pragma once

#include <memory>

#include "runtime/pool/pool_device.h"

namespace gpk::inline core {
class Context;
}

namespace gpk::device {

std::unique_ptr<runtime::PoolDevice> make_driver_memory(Context& context);

}  // namespace gpk::device
