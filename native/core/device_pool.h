// The memory pool of each device: where all arrays live.
//
// Buffer::allocate() is the way in. To make allocations of a thread count against an account with a
// limit, see core/memory_account.h (AccountScope); to hold room for scheduled tasks, see
// core/pool_ledger.h.
#pragma once

#include <functional>
#include <memory>

#include "core/device.h"
#include "core/error.h"
#include "runtime/pool/pool.h"

namespace gpk {

class Context;
class Stream;

// A pool and the device memory under it.
class DevicePool {
 public:
  // The quota is PYGPUKIT_MEMORY_LIMIT.
  explicit DevicePool(Context& context);
  DevicePool();  // of CPU simulation
  runtime::Pool& operator*() noexcept { return pool_; }

 private:
  std::unique_ptr<runtime::PoolDevice> memory_;
  runtime::Pool pool_;
};

// Made at first use; lives as long as the process. Throws GpuUnavailable / CudaError.
runtime::Pool& device_pool(Device device);

// What the pool calls a stream: one for all on the CPU, where work is done when a call returns.
runtime::Pool::Stream pool_stream(const Stream& stream) noexcept;

// Called by pools when memory is short, on any thread, with no lock of ours held: drops what only a
// garbage collector can. Once, before the first allocation.
void set_collect_hook(std::function<void()> collect);

// The same error in terms of core.
OutOfMemory as_out_of_memory(const runtime::PoolOutOfMemory& error, const char* op);
[[noreturn]] void throw_out_of_memory(const runtime::PoolOutOfMemory& error, const char* op);

}  // namespace gpk
