// The memory pool of each device: where all arrays live.
//
// Buffer::allocate() allocates from it. To make allocations of a thread count against an account
// with a limit, see device/memory_account.h (AccountScope); to hold room for scheduled tasks, see
// device/pool_ledger.h.
#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "core/device_memory.h"
#include "runtime/pool/pool.h"

namespace gpk::device {

// A pool and the memory under it. The quota is PYGPUKIT_MEMORY_LIMIT.
class DevicePool final : public DeviceMemory {
 public:
  DevicePool(Device device, std::unique_ptr<runtime::PoolDevice> memory, std::size_t total_bytes);
  [[nodiscard]] runtime::Pool& pool() noexcept { return pool_; }

  std::shared_ptr<Buffer> allocate(std::size_t bytes) override;
  std::unique_ptr<CaptureMemory> open_capture() override;
  void forget_stream(const Stream& stream) override;

 private:
  const Device device_;
  std::unique_ptr<runtime::PoolDevice> memory_;
  runtime::Pool pool_;
};

// An arena of the pool that one graph has for itself.
class PoolCapture final : public CaptureMemory {
 public:
  explicit PoolCapture(runtime::Pool& pool) : pool_(pool), arena_(pool.open_private()) {}
  [[nodiscard]] std::uint64_t id() const noexcept override { return arena_->id; }
  [[nodiscard]] runtime::PoolArena* arena() const noexcept { return arena_; }
  void close(std::span<const std::shared_ptr<Stream>> streams) override;

 private:
  runtime::Pool& pool_;
  runtime::PoolArena* arena_;
};

// Made at first use; lives as long as the process. Throws GpuUnavailable / CudaError.
runtime::Pool& device_pool(Device device);

// What the pool calls a stream: one for all on the CPU, where work is done when a call returns.
runtime::Pool::Stream pool_stream(const Stream& stream) noexcept;

// Called by pools when memory is short, on any thread, with no lock of ours held: drops what only a
// garbage collector can. Once, before the first allocation.
void set_collect_hook(std::function<void()> collect);

}  // namespace gpk::device
