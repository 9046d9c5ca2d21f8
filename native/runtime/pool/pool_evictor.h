// Evicts large blocks to pinned host memory and restores them at the same address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/pool/pool_block.h"
#include "runtime/pool/pool_heap.h"
#include "runtime/pool/pool_host.h"

namespace gpk::runtime {

// Order: LRU within a class, lower classes before higher ones. A block is evicted only while not
// pinned and after all work on it: work known to be done from marks in its streams, or, as a last
// resort, work that the copy waits for.
//
// touch() and note_use() are thread safe; the pool's lock guards the rest.
class PoolEvictor {
 public:
  PoolEvictor(PoolDevice& device, PoolSpace& space, PoolHeap& heap, PoolStreams& streams,
              std::size_t max_host_bytes);
  // All copies must have completed.
  ~PoolEvictor();
  PoolEvictor(const PoolEvictor&) = delete;
  PoolEvictor& operator=(const PoolEvictor&) = delete;

  // A large block was allocated; call reserve() before, so that enter() cannot fail.
  void reserve() { blocks_.reserve(blocks_.size() + 1); }
  void enter(PoolLarge* block) noexcept;
  // It is about to be freed. Its streams other than home stay in `users`.
  void leave(PoolLarge* block) noexcept;

  // After work on the block was submitted, before its pin is released: exact for evictable blocks,
  // and for others two loads as long as no mark was made.
  void note_use(PoolLarge* block) noexcept {
    const std::uint64_t tick = block->evictable.load(std::memory_order_relaxed)
                                   ? ++ticks_
                                   : ticks_.load(std::memory_order_seq_cst);
    raise_last_use(block, tick);
  }
  // Marks the block as used now.
  void touch(PoolLarge* block) noexcept { raise_last_use(block, ++ticks_); }
  // `stream` uses the block too.
  void add_user(PoolLarge* block, PoolStream* stream);
  // The driver may reuse the stream's id.
  void forget(const PoolStream* stream) noexcept;

  // Number of chunks that evicting the block would free.
  [[nodiscard]] std::size_t num_chunks(const PoolLarge& block) const noexcept {
    return heap_.inner(*block.range).num_chunks;
  }
  // Evicts until `num` chunks have become spare, blocks of classes up to `max_class` only; with
  // `idle_only` none that the device may still use. No-op when all candidates are not enough.
  // Returns the number of chunks.
  std::size_t evict(std::size_t num, PoolClass max_class, bool idle_only, const PoolWait& wait);
  // Evicts this one, which is not being restored; false when it is pinned or host memory is short.
  bool evict_block(PoolLarge* block, const PoolWait& wait);

  // Maps spare chunks and starts the copy on `stream`. False: the device cannot map.
  bool restore(PoolLarge* block, PoolStream* stream);
  // After restore(): orders later work of `stream` after the copy.
  void order_after_restore(PoolLarge* block, PoolDevice::Stream stream);
  // Completes restores whose copies are done.
  void poll();
  // Waits for this block's copy, if any.
  void finish(PoolLarge* block, const PoolWait& wait);

  // Evictable blocks that are pinned, being restored or possibly in use.
  [[nodiscard]] bool has_busy() const noexcept;

  struct Counters {
    std::size_t evicted_bytes = 0;  // now
    std::size_t num_evictions = 0;
    std::size_t num_restores = 0;
    std::size_t evicted_total_bytes = 0;
    std::size_t restored_total_bytes = 0;
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] const std::vector<PoolLarge*>& blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::size_t host_bytes() const noexcept { return host_.held_bytes(); }
  void trim_host() noexcept { host_.trim(); }

 private:
  struct Copy {  // copy in flight of a block that was freed
    PoolHost::Piece piece;
    PoolStream* stream;
    PoolDevice::Event event;
  };
  static void raise_last_use(PoolLarge* block, std::uint64_t tick) noexcept {
    std::uint64_t last = block->last_use.load(std::memory_order_relaxed);
    while (last < tick && !block->last_use.compare_exchange_weak(last, tick)) {
    }
  }
  [[nodiscard]] bool is_candidate(const PoolLarge& block, PoolClass max_class) const noexcept;
  std::vector<PoolLarge*> choose(std::size_t num, PoolClass max_class, bool idle_only);
  void mark_streams(const std::vector<PoolLarge*>& blocks);
  [[nodiscard]] static bool is_idle(const PoolLarge& block) noexcept;
  std::size_t move_out(const std::vector<PoolLarge*>& victims, bool idle_only,
                       const PoolWait& wait);
  std::vector<PoolLarge*> claim(const std::vector<PoolLarge*>& victims, bool idle_only);
  void unclaim(const std::vector<PoolLarge*>& blocks) noexcept;
  void copy_out(const std::vector<PoolLarge*>& blocks, const PoolWait& wait);
  bool arrived(PoolStream* stream, PoolDevice::Event event);
  void clear_restore(PoolLarge* block) noexcept;

  PoolDevice& device_;
  PoolSpace& space_;
  PoolHeap& heap_;
  PoolStreams& streams_;
  PoolHost host_;
  std::atomic<std::uint64_t> ticks_{0};
  std::vector<PoolLarge*> blocks_;    // all allocated ones
  std::vector<PoolLarge*> arriving_;  // being restored
  std::vector<Copy> orphans_;
  Counters counters_;
};

}  // namespace gpk::runtime
