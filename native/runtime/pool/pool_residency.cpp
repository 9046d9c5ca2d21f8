// Eviction and restoring of the pool's blocks.
#include <string>
#include <utility>

#include "runtime/pool/pool.h"

namespace gpk::runtime {
namespace {

// Undoes the pin on every exit but success.
class PinScope {
 public:
  explicit PinScope(PoolLarge* block) : block_(block) {}
  ~PinScope() {
    if (block_ != nullptr) block_->uses.fetch_sub(1, std::memory_order_release);
  }
  PinScope(const PinScope&) = delete;
  PinScope& operator=(const PinScope&) = delete;
  void keep() noexcept { block_ = nullptr; }

 private:
  PoolLarge* block_;
};

}  // namespace

// nullptr for a small block.
PoolLarge* Pool::check_large(PoolBlock* block, const char* what) const {
  check_live(block, what);
  return block->span == nullptr ? static_cast<PoolLarge*>(block) : nullptr;
}

// Called with the block pinned.
void Pool::acquire_slow(PoolLarge* block, Stream stream) {
  PinScope scope(block);
  Lock lock(mutex_);
  if (!bring_back(lock, block, stream))
    throw_out_of_memory(lock, "Pool::acquire", block->evicted_bytes, block->account, false);
  evictor_.add_user(block, streams_.get(stream));
  evictor_.poll();
  evictor_.order_after_restore(block, stream);
  scope.keep();
}

void Pool::await_leaving(Lock& lock, const PoolLarge* block) {
  changed_.wait(lock, [block] { return !block->leaving; });
}

// False: no room. The block must be pinned.
bool Pool::bring_back(Lock& lock, PoolLarge* block, Stream stream) {
  await_leaving(lock, block);
  if (block->evicted_bytes == 0) return true;
  const std::size_t num = evictor_.num_chunks(*block);
  Need need;
  need.stream = streams_.get(stream);
  need.max_class =
      block->account == nullptr ? PoolClass::kBurstable : block->account->evict_class();
  need.shortage = [&] {
    const std::size_t available = space_.num_available();
    return num > available ? num - available : 0;
  };
  need.attempt = [&](bool) {
    if (block->evicted_bytes == 0) return true;  // another thread did it
    if (num > space_.num_available() || !space_.ensure_spare(num)) return false;
    return evictor_.restore(block, streams_.get(stream));
  };
  const bool done = relieve(lock, need);
  count_evicted();
  return done;
}

void Pool::pin(PoolBlock* block) {
  PoolLarge* large = check_large(block, "pin");
  if (large == nullptr || !large->can_evict) return;
  large->uses.fetch_add(1, std::memory_order_acquire);
  PinScope scope(large);
  Lock lock(mutex_);
  await_leaving(lock, large);
  if (large->evicted_bytes != 0 && !bring_back(lock, large, device_.copy_stream()))
    throw_out_of_memory(lock, "Pool::pin", large->evicted_bytes, large->account, false);
  evictor_.finish(large, waiter(lock));
  scope.keep();
}

void Pool::touch(PoolBlock* block) noexcept {
  if (block->span == nullptr) evictor_.touch(static_cast<PoolLarge*>(block));
}

bool Pool::set_evictable(PoolBlock* block, bool evictable) {
  const Lock lock(mutex_);
  PoolLarge* large = check_large(block, "set_evictable");
  if (large == nullptr || !large->can_evict) return false;
  if (evictable && !large->evictable.load()) evictor_.touch(large);  // in the order it joins them
  large->evictable.store(evictable);
  if (evictable) listeners_.notify();
  return evictor_.num_chunks(*large) > 0;
}

std::size_t Pool::evict(PoolBlock* block) {
  const auto fail = [](const std::string& why) {
    throw Error(Error::Kind::kState, "Pool: evict of a block that " + why);
  };
  Lock lock(mutex_);
  PoolLarge* large = check_large(block, "evict");
  if (!space_.can_map())
    fail("could not be restored at its address: the device has no virtual memory management");
  if (large != nullptr) await_leaving(lock, large);
  if (large == nullptr || large->evicted_bytes != 0 || evictor_.num_chunks(*large) == 0) return 0;
  if (large->range->arena->kind != PoolArena::Kind::kCommon)
    fail("belongs to a reservation or a capture, expected a common one");
  evictor_.finish(large, waiter(lock));
  if (const std::uint32_t pins = large->uses.load(); pins != 0)
    fail("is pinned " + std::to_string(pins) + " times, expected one that is not");
  if (!evictor_.evict_block(large, waiter(lock)) && large->uses.load() != 0)
    fail("was pinned meanwhile");
  count_evicted();
  if (large->evicted_bytes == 0) {
    OutOfMemory::Numbers numbers;
    numbers.asked_bytes = block->bytes;
    numbers.limit_bytes = options_.max_host_bytes;
    numbers.used_bytes = evictor_.host_bytes();
    throw OutOfMemory("Pool::evict: pinned host memory", numbers);
  }
  return large->evicted_bytes;
}

void Pool::restore(PoolBlock* block, Stream stream) {
  check_live(block, "restore");
  acquire(block, stream);
  release(block);
}

bool Pool::prefetch(PoolBlock* block) {
  PoolLarge* large = check_large(block, "prefetch");
  if (large == nullptr || !large->can_evict) return true;
  large->uses.fetch_add(1, std::memory_order_acquire);
  const PinScope scope(large);
  Lock lock(mutex_);
  await_leaving(lock, large);
  const bool done = large->evicted_bytes == 0 || bring_back(lock, large, device_.copy_stream());
  if (done) evictor_.touch(large);
  return done;
}

bool Pool::awaits_device() const {
  const Lock lock(mutex_);
  return !pending_.empty() || evictor_.has_busy();
}

bool Pool::is_evicted(PoolBlock* block) const {
  const Lock lock(mutex_);
  const PoolLarge* large = check_large(block, "is_evicted");
  return large != nullptr && large->evicted_bytes != 0;
}

}  // namespace gpk::runtime
