// A buffer of the device's pool: a block that can be evicted while nobody uses it.
#pragma once

#include <cstddef>
#include <memory>

#include "core/buffer.h"
#include "runtime/pool/pool.h"

namespace gpk::device {

class MemoryAccount;

class PoolBuffer final : public Buffer {
 public:
  // From `pool` (or the private memory of the graph being captured), for use on the calling
  // thread's current stream, charged to its account. `evictable`: may be evicted, whole. Throws
  // OutOfMemory.
  PoolBuffer(Device device, runtime::Pool& pool, std::size_t bytes, bool evictable = false);
  ~PoolBuffer() override;

  [[nodiscard]] runtime::Pool& pool() const noexcept { return pool_; }
  [[nodiscard]] runtime::PoolBlock* block() const noexcept { return block_; }

 private:
  void begin_use_movable(Stream& stream) override;
  void pin_movable() override;
  void unpin_movable() noexcept override;
  void give_back();

  runtime::Pool& pool_;
  runtime::PoolBlock* block_ = nullptr;  // ours to free
  std::shared_ptr<MemoryAccount> account_;
};

// nullptr for memory of others and for empty buffers.
const PoolBuffer* pool_buffer(const Buffer& buffer) noexcept;
// Its block, likewise.
runtime::PoolBlock* pool_block(const Buffer& buffer) noexcept;

}  // namespace gpk::device
