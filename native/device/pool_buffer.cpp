#include "device/pool_buffer.h"

#include <vector>

#include "core/context.h"
#include "core/driver.h"
#include "core/graph.h"
#include "core/release.h"
#include "core/sim_driver.h"
#include "core/stream.h"
#include "device/device_pool.h"
#include "device/memory_account.h"

namespace gpk::device {

PoolBuffer::PoolBuffer(Device device, runtime::Pool& pool, std::size_t bytes, bool evictable)
    : Buffer(device, nullptr, bytes), pool_(pool) {
  runtime::PoolPlace place;
  place.evictable = evictable;
  runtime::Pool::Stream stream = 0;
  if (has_thread_places()) [[unlikely]]
    account_ = apply_thread_place(device, place);
  if (device.is_cuda()) {
    if (releases_pending()) [[unlikely]]
      release_finished();
    const auto& current = current_stream(device);
    set_home(current);
    stream = pool_stream(*current);
    if (CaptureMemory* memory = capture_memory(device); memory != nullptr) [[unlikely]] {
      place.arena = static_cast<PoolCapture*>(memory)->arena();
      set_capture_id(memory->id());
    }
    current->context()->make_current();
  }
  try {
    block_ = pool.allocate(bytes, stream, place);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("allocate", error.numbers());
  }
  set_memory(reinterpret_cast<void*>(static_cast<std::uintptr_t>(block_->address)),
             capture_id() == 0 && pool.can_evict(block_));
  if (device.is_cuda() && driver_is_simulated()) [[unlikely]]
    sim_driver().sim.gpkSimHandOut(block_->address, bytes, block_->bytes, home()->handle());
}

PoolBuffer::~PoolBuffer() {
  try {
    give_back();
  } catch (...) {  // a lost device has no work left to wait for, and no memory to give back
  }
}

void PoolBuffer::give_back() {
  std::vector<runtime::Pool::Stream> others;
  const bool in_capture = capture_id() != 0 && home()->capturing();
  for (const auto& user : users()) {
    // An event of a capture cannot be polled: there the order is made part of the graph.
    if (in_capture && user->capturing())
      home()->wait(*user);
    else
      others.push_back(pool_stream(*user));
  }
  pool_.free(block_, others);
}

void PoolBuffer::begin_use_movable(Stream& stream) {
  // The stream of a capture can neither be waited for nor bring anything back: a pin does it now.
  if (capturing_graph() != nullptr && stream.capturing()) [[unlikely]]
    return pin();
  try {
    pool_.acquire(block_, pool_stream(stream));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("restore", error.numbers());
  }
}

void PoolBuffer::pin_movable() {
  try {
    pool_.pin(block_);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("restore", error.numbers());
  }
}

void PoolBuffer::unpin_movable() noexcept { pool_.unpin(block_); }

const PoolBuffer* pool_buffer(const Buffer& buffer) noexcept {
  return dynamic_cast<const PoolBuffer*>(&buffer);
}

runtime::PoolBlock* pool_block(const Buffer& buffer) noexcept {
  const PoolBuffer* of_pool = pool_buffer(buffer);
  return of_pool == nullptr ? nullptr : of_pool->block();
}

}  // namespace gpk::device
