// Per-thread caches of free small blocks, so that most calls touch no shared state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/pool/pool_spans.h"

namespace gpk::runtime {

// For critical sections of a few instructions.
class PoolSpinLock {
 public:
  void lock() noexcept {
    while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// Where cached blocks return to. Called with the cache's lock held.
class PoolCacheSink {
 public:
  virtual ~PoolCacheSink() = default;
  // A list of free blocks, linked by `next`.
  virtual void take_back(PoolBlock* blocks) noexcept = 0;
};

// The cache of one thread for one pool. Its lock is practically private: others take it only to
// empty the cache, so it costs an uncontended exchange.
class alignas(64) PoolThreadCache {
 public:
  PoolThreadCache(PoolCacheSink& sink, std::uint64_t pool_id) : sink_(&sink), pool_id_(pool_id) {}

  // Blocks of a class that a thread keeps per stream; half of them move at a time.
  static constexpr std::size_t capacity(std::uint32_t size_class) noexcept {
    const std::size_t fit = (std::size_t{128} << 10) / PoolSizeClass::bytes(size_class);
    return fit < 2 ? 2 : (fit > 64 ? 64 : fit);
  }

  // Counts an allocation and returns the block; nullptr when empty.
  PoolBlock* pop(PoolDevice::Stream stream, std::uint32_t size_class) noexcept;
  // Counts an allocation of the first block of the list and caches the others. Returns those that
  // do not fit.
  PoolBlock* refill(PoolStream* stream, PoolBlock* blocks) noexcept;
  // Counts a free and caches the block. Returns surplus blocks.
  PoolBlock* push(PoolBlock* block, PoolStream* stream) noexcept;
  // Removes everything, or only what belongs to `stream`, whose list is destroyed.
  PoolBlock* empty(const PoolStream* stream) noexcept;

  // The thread ends: returns all blocks.
  void end() noexcept;
  // The pool ends. The cache must not be used afterwards.
  void detach() noexcept;

  [[nodiscard]] bool ended() const noexcept { return ended_.load(); }
  [[nodiscard]] std::uint64_t pool_id() const noexcept { return pool_id_; }

  // Written by the thread that holds the lock, read by all.
  struct Counters {
    std::atomic<std::int64_t> used_bytes{0};  // may be negative: another thread allocated
    std::atomic<std::int64_t> peak_bytes{0};  // since the thread's last PoolCaches::sample()
    std::atomic<std::int64_t> num_blocks{0};
    std::atomic<std::int64_t> num_allocations{0};
  };
  [[nodiscard]] Counters& counters() noexcept { return counters_; }

 private:
  struct Lists {
    explicit Lists(PoolStream* of) : stream(of), id(of->id) {}
    PoolStream* stream;
    PoolDevice::Stream id;
    std::array<PoolBlock*, kNumPoolSizeClasses> first{};
    std::array<std::uint32_t, kNumPoolSizeClasses> count{};
  };
  Lists* find(PoolDevice::Stream id) noexcept;
  Lists* get(PoolStream* stream) noexcept;
  void count(std::int64_t bytes, std::int64_t num) noexcept;
  static PoolBlock* drain(Lists& lists, PoolBlock* onto) noexcept;

  PoolSpinLock lock_;
  Lists* last_ = nullptr;  // most recently used
  Counters counters_;
  PoolCacheSink* sink_;  // nullptr: the pool was destroyed
  const std::uint64_t pool_id_;
  std::atomic<bool> ended_{false};
  std::vector<std::unique_ptr<Lists>> lists_;
};

// All caches of one pool. Thread safe.
class PoolCaches {
 public:
  explicit PoolCaches(PoolCacheSink& sink);
  ~PoolCaches();
  PoolCaches(const PoolCaches&) = delete;
  PoolCaches& operator=(const PoolCaches&) = delete;

  // The calling thread's; nullptr when the thread is ending or memory is short.
  PoolThreadCache* mine() noexcept;

  // Empties all caches, or only of what belongs to `stream`.
  PoolBlock* empty(const PoolStream* stream) noexcept;

  struct Sums {
    std::int64_t used_bytes = 0;
    std::int64_t peak_bytes = 0;
    std::int64_t num_blocks = 0;
    std::int64_t num_allocations = 0;
  };
  [[nodiscard]] Sums sums();
  // sums(), and resets the calling thread's peak.
  Sums sample();

 private:
  PoolThreadCache* find_or_make() noexcept;

  PoolCacheSink& sink_;
  const std::uint64_t id_;
  std::mutex mutex_;  // taken before the lock of a cache
  std::vector<std::shared_ptr<PoolThreadCache>> caches_;
  Sums gone_;  // totals of threads that have ended
};

}  // namespace gpk::runtime
