// The memory pool: device memory with stream-ordered reuse, a quota, accounts, reservations, and
// eviction to host memory at stable addresses.
//
//   Pool pool(device, {.quota_bytes = 4 << 30});
//   PoolBlock* block = pool.allocate(bytes, stream);
//   {
//     const PoolUse use(pool, block, stream);  // resident, and not evicted meanwhile
//     launch(block->address, stream);
//   }
//   pool.free(block);
//
// Small requests (to small_max_bytes) come from size classes through per-thread caches; larger ones
// are best fit. Memory freed on a stream is reused on that stream at once. Another stream's free
// memory is used only when the quota forbids growth, after a stream-ordered wait.
//
// Thread safe. Errors are Error; those of the device propagate, and leave the pool consistent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/memory_listener.h"
#include "runtime/pool/pool_account.h"
#include "runtime/pool/pool_cache.h"
#include "runtime/pool/pool_counted_device.h"
#include "runtime/pool/pool_evictor.h"
#include "runtime/pool/pool_heap.h"
#include "runtime/pool/pool_pending.h"
#include "runtime/pool/pool_spans.h"
#include "runtime/pool/pool_stats.h"

namespace gpk::runtime {

struct PoolOptions {
  std::size_t quota_bytes = 0;                       // of physical memory, 0: none
  std::size_t chunk_bytes = std::size_t{2} << 20;    // a power of two
  std::size_t region_bytes = std::size_t{64} << 30;  // address space reserved at a time
  // Minimum allocation of a device without virtual memory.
  std::size_t segment_bytes = std::size_t{32} << 20;
  std::size_t small_max_bytes = PoolSizeClass::kMaxBytes;  // 0: no size classes
  // Blocks from this size on are evictable by default, 0: only those that are marked.
  std::size_t evict_from_bytes = 0;
  std::size_t max_host_bytes = 0;  // for evicted blocks, 0: no limit
  // Called without locks when memory is short: to drop what only a garbage collector can.
  std::function<void()> collect;
};

// Placement of an allocation. Every field is optional.
struct PoolPlace {
  PoolAccount* account = nullptr;  // that is charged
  PoolArena* arena = nullptr;      // of a reservation or a capture
  bool evictable = false;          // gets whole chunks of its own, and may be evicted
};

class Pool final : private PoolCacheSink {
 public:
  using Stream = PoolDevice::Stream;

  // The device must outlive the pool. Throws kValue for inconsistent sizes.
  Pool(PoolDevice& device, PoolOptions options);
  // Waits for the device. Blocks still in use become dangling.
  ~Pool() override;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // At least `bytes` > 0, aligned to 256, for use on `stream` (its home). Contents are undefined.
  // Throws OutOfMemory after all measures to make room have failed.
  PoolBlock* allocate(std::size_t bytes, Stream stream, const PoolPlace& place = {});
  // `others`: streams besides home that used the block; it is reused only after the work submitted
  // to them so far. Throws kValue for what is not a block in use.
  void free(PoolBlock* block, std::span<const Stream> others = {});
  // The stream is about to be destroyed; the driver may reuse its id.
  void forget_stream(Stream stream);

  // Releases all free physical memory to the device, after waiting for the work on it; cached host
  // memory too. Reservations and captures keep theirs. Returns the device bytes.
  std::size_t trim();
  // Trims and evicts as the new quota requires. Throws OutOfMemory, keeping the old quota, when
  // that is not enough.
  void set_quota(std::size_t quota_bytes);

  // Like PoolOptions::evict_from_bytes, for later allocations.
  void set_evict_from(std::size_t bytes) noexcept {
    evict_from_bytes_.store(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t evict_from() const noexcept {
    return evict_from_bytes_.load(std::memory_order_relaxed);
  }

  // Lives until close_account(). The name is for messages.
  PoolAccount* open_account(std::size_t limit_bytes, PoolClass evict_class = PoolClass::kBurstable,
                            std::string name = {});
  // Throws kState while blocks are charged to it, kValue when it is not open.
  void close_account(PoolAccount* account);
  // An account that is a reservation of `bytes` within `parent`; nullptr where the parent's limit
  // does not allow it. Closed like any other, before its parent.
  PoolAccount* open_reservation(PoolAccount& parent, std::size_t bytes);

  // Guaranteed room: chunks that from now on serve only allocations with this arena. A large block
  // takes as many chunks as its size fills in whole or in part; small ones share chunks of their
  // own. What does not fit comes from common memory as if no arena had been given. Throws
  // OutOfMemory.
  PoolArena* reserve(std::size_t bytes);
  // Same without waiting for the device and without the collector; blocks that the device does not
  // use are evicted. nullptr where there is no room now.
  PoolArena* try_reserve(std::size_t bytes);
  // For a graph capture: freed memory is reused within the arena only and stays mapped until
  // close(); it counts against the quota and is never evicted.
  PoolArena* open_private();
  // Blocks of the arena become common ones; its free memory becomes common after the work submitted
  // to `streams` so far. No allocation with the arena may be in progress.
  void close(PoolArena* arena, std::span<const Stream> streams = {});
  [[nodiscard]] PoolArenaStats arena_stats(PoolArena* arena) const;

  // Eviction. Only large blocks can be evicted, and only the whole chunks they do not share: with
  // PoolPlace::evictable (or evict_from_bytes) that is the whole block.

  // False: this block is always resident, and needs no acquire() and release().
  [[nodiscard]] static bool can_evict(const PoolBlock* block) noexcept {
    return block->span == nullptr && static_cast<const PoolLarge*>(block)->can_evict;
  }
  // Brackets the submission of work on the block. Restores it where it was evicted (throws
  // OutOfMemory where that fails) and keeps it resident until release().
  void acquire(PoolBlock* block, Stream stream) {
    if (block->span != nullptr) return;
    auto* large = static_cast<PoolLarge*>(block);
    if (!large->can_evict) return;
    const std::uint32_t before = large->uses.fetch_add(1, std::memory_order_acquire);
    if ((before & PoolLarge::kAway) != 0 || !large->knows(stream)) [[unlikely]]
      acquire_slow(large, stream);
  }
  void release(PoolBlock* block) noexcept {
    if (block->span != nullptr) return;
    auto* large = static_cast<PoolLarge*>(block);
    if (!large->can_evict) return;
    evictor_.note_use(large);
    large->uses.fetch_sub(1, std::memory_order_release);
  }
  // Restores it, waits until it is resident, and keeps it so until unpin(). Counted.
  void pin(PoolBlock* block);
  void unpin(PoolBlock* block) noexcept { release(block); }
  // Marks it as most recently used.
  void touch(PoolBlock* block) noexcept;
  // True when eviction could free some of it.
  bool set_evictable(PoolBlock* block, bool evictable);
  // Evicts it now, after waiting for the work on it. Returns the physical bytes freed: 0 when it
  // has no whole chunk to itself or is evicted already. Throws kState when it is pinned, when it
  // belongs to a reservation or a capture, or when the device has no virtual memory management.
  std::size_t evict(PoolBlock* block);
  void restore(PoolBlock* block, Stream stream);
  // Starts restoring it, concurrently with the work of all streams. False: no room.
  bool prefetch(PoolBlock* block);
  [[nodiscard]] bool is_evicted(PoolBlock* block) const;

  // Notified when memory became free that a refused request may get now; a refused request notifies
  // nobody, so that a listener may retry at once. Small blocks cached by a thread, and memory of
  // other processes, become free without notification; so does memory that depends on device work,
  // for which there is awaits_device().
  [[nodiscard]] MemoryListeners& listeners() noexcept { return listeners_; }
  // Frees that another stream still works on, or evictable blocks in use.
  [[nodiscard]] bool awaits_device() const;

  [[nodiscard]] PoolStats stats() const;
  // Of the open accounts, in the order in which they were opened.
  [[nodiscard]] std::vector<PoolAccountStats> account_stats() const;
  [[nodiscard]] PoolSnapshot snapshot() const;
  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return space_.chunk_bytes(); }

 private:
  using Lock = std::unique_lock<std::mutex>;

  // What relieve() makes room for.
  struct Need {
    std::function<bool(bool foreign)> attempt;  // foreign: holes of other streams too
    std::function<std::size_t()> shortage;      // in chunks
    PoolStream* stream = nullptr;
    PoolClass max_class = PoolClass::kGuaranteed;
    bool foreign = false;
  };
  enum class Step : std::uint8_t;
  // Tries, escalating between attempts to make room. False: nothing helped. The lock may be
  // released and reacquired.
  bool relieve(Lock& lock, Need& need);
  bool climb(Lock& lock, Need& need, std::span<const Step> ladder);
  bool run_step(Lock& lock, Need& need, Step step);
  bool flush_caches(Lock& lock);
  bool reclaim(Lock& lock, const Need& need);
  bool settle_all(Lock& lock, const PoolArena& arena);
  bool poll_pending();
  bool drain_pending(Lock& lock);
  // Waits for the device, without the lock.
  PoolWait waiter(Lock& lock);
  // Blocks until a waiting thread has got what it needs; false when none waits.
  bool await_others(Lock& lock);
  void finish_pending(const PoolPending::Item& item) noexcept;

  PoolBlock* allocate_small(std::size_t bytes, Stream stream, const PoolPlace& place);
  PoolBlock* refill(PoolThreadCache* cache, std::size_t bytes, Stream stream,
                    const PoolPlace& place);
  PoolBlock* allocate_large(std::size_t bytes, Stream stream, const PoolPlace& place,
                            bool evictable);
  PoolBlock* take_small(Lock& lock, std::size_t bytes, Stream stream, const PoolPlace& place,
                        std::size_t num);
  PoolBlock* take_free(PoolArena& arena, const PoolStream& stream, std::uint32_t size_class,
                       std::size_t num) noexcept;
  // `asked_bytes`: for the message.
  PoolRange* find_range(Lock& lock, std::size_t bytes, Stream stream, const PoolPlace& place,
                        std::size_t alignment_bytes, std::size_t asked_bytes);
  PoolRange* fit_reserved(Lock& lock, const PoolHeap::Request& request);
  void top_up(PoolArena& arena) noexcept;
  PoolLarge* take_large();
  void charge(PoolAccount* account, std::size_t bytes, std::size_t asked_bytes);
  PoolArena* reserve_with(Lock& lock, std::size_t bytes, bool patient);
  void free_slow(PoolBlock* block, std::span<const Stream> others);
  void release_block(PoolBlock* block) noexcept;
  bool put_small(PoolBlock* blocks) noexcept;  // true: a whole span became free
  void take_back(PoolBlock* blocks) noexcept override;
  void count_central(std::int64_t bytes, std::int64_t num) noexcept;
  void count_evicted() noexcept;
  void sample_peak();

  void acquire_slow(PoolLarge* block, Stream stream);
  bool bring_back(Lock& lock, PoolLarge* block, Stream stream);
  void await_leaving(Lock& lock, const PoolLarge* block);
  PoolLarge* check_large(PoolBlock* block, const char* what) const;
  void check_live(const PoolBlock* block, const char* what) const;
  PoolArena* check_arena(PoolArena* arena, const char* what) const;
  void dissolve(PoolArena* arena) noexcept;

  // Releases the lock temporarily.
  [[noreturn]] void throw_out_of_memory(Lock& lock, const char* what, std::size_t bytes,
                                        const PoolAccount* account, bool account_refused);
  [[nodiscard]] PoolStats stats_with(const PoolCaches::Sums& sums) const;

  const PoolOptions options_;
  std::atomic<std::size_t> evict_from_bytes_;
  mutable PoolCountedDevice device_;

  mutable std::mutex mutex_;  // never held while a lock of the caches is taken
  std::condition_variable changed_;
  std::size_t num_waiting_ = 0;  // threads that wait for the device
  std::uint64_t num_waits_ = 0;  // completed waits
  PoolStreams streams_;
  PoolSpace space_;
  PoolArena common_;
  std::map<const PoolArena*, std::unique_ptr<PoolArena>> arenas_;
  std::uint64_t last_arena_id_ = 0;
  PoolHeap heap_;
  PoolPending pending_;
  PoolSpans spans_;
  std::vector<std::unique_ptr<PoolLarge>> larges_;
  PoolBlock* free_larges_ = nullptr;
  PoolEvictor evictor_;
  std::vector<std::unique_ptr<PoolAccount>> accounts_;
  std::uint64_t last_account_id_ = 0;
  std::size_t num_fresh_ = 0;           // allocations that needed new physical memory
  std::size_t seen_evicted_bytes_ = 0;  // not included in central_used_bytes_
  std::size_t num_frees_since_poll_ = 0;

  // What did not go through a cache. Written under the lock.
  std::atomic<std::int64_t> central_used_bytes_{0};
  std::atomic<std::int64_t> central_num_blocks_{0};
  std::atomic<std::int64_t> central_num_allocations_{0};
  std::atomic<std::int64_t> peak_used_bytes_{0};

  MemoryListeners listeners_;
  mutable PoolCaches caches_;
};

// acquire() / release() as RAII.
class PoolUse {
 public:
  PoolUse(Pool& pool, PoolBlock* block, Pool::Stream stream) : pool_(pool), block_(block) {
    pool_.acquire(block_, stream);
  }
  ~PoolUse() { pool_.release(block_); }
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

 private:
  Pool& pool_;
  PoolBlock* block_;
};

}  // namespace gpk::runtime
