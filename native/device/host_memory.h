// Host memory as the memory pool sees it: the device memory of CPU simulation.
#pragma once

#include <memory>

#include "runtime/pool/pool_device.h"

namespace gpk::device {

// Address space and memory are apart where the operating system can do that (POSIX): unmapped
// memory really goes back to it. Work is done when a call returns, so streams and events are empty.
std::unique_ptr<runtime::PoolDevice> make_host_memory();

}  // namespace gpk::device
