// The memory pool of the 0.2 API: blocks of fixed size classes with a quota, and eviction of the
// least recently used to host memory. Arrays live in another pool; these blocks are for code that
// handles memory itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/clock.h"

namespace gpk::runtime {

// Device and host memory, injected. Copies return when they are done, after all work that was
// submitted to the device before.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;
  // 0 when there is no memory left.
  virtual std::uint64_t allocate(std::size_t bytes) = 0;
  virtual void free(std::uint64_t ptr, std::size_t bytes) noexcept = 0;
  // nullptr when there is no memory left.
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void free_host(void* ptr, std::size_t bytes) noexcept = 0;
  virtual void copy_to_host(void* dst, std::uint64_t src, std::size_t bytes) = 0;
  virtual void copy_to_device(std::uint64_t dst, const void* src, std::size_t bytes) = 0;
};

using BlockId = std::uint64_t;  // from 0; not used again

struct BlockInfo {
  BlockId id = 0;
  std::size_t size_bytes = 0;    // of the class
  std::uint64_t device_ptr = 0;  // 0 while evicted
  bool on_gpu = false;
  bool on_host = false;
  std::int64_t last_access_ns = 0;
  [[nodiscard]] bool is_available() const noexcept { return on_gpu; }
  [[nodiscard]] bool is_evicted() const noexcept { return on_host && !on_gpu; }
};

struct BlockPoolStats {
  std::size_t quota = 0;
  std::size_t used = 0;       // class sizes of live blocks on the GPU
  std::size_t cached = 0;     // free lists
  std::size_t available = 0;  // quota - used
  std::uint64_t allocation_count = 0;
  std::uint64_t reuse_count = 0;
  std::uint64_t eviction_count = 0;
  std::uint64_t restore_count = 0;
  std::uint64_t cudamalloc_count = 0;  // allocations that the device served
  std::size_t active_blocks = 0;       // live, evicted ones among them
  std::size_t free_blocks = 0;         // in free lists
  std::size_t evicted_bytes = 0;       // live blocks in host memory
};

// Thread safe, by one lock. Used and cached memory together never exceed the quota. Errors: kMemory
// when the quota, the device or the host has no room, with all the numbers; kValue for ids that are
// not live and sizes out of range. What the device throws passes through; the pool is then as
// before.
class BlockPool {
 public:
  // 256 B, 1K, 4K ... 256M; above, a multiple of 1 MiB.
  [[nodiscard]] static std::size_t size_class(std::size_t bytes);

  // `quota` > 0. `device` and `clock` outlive the pool.
  BlockPool(BlockDevice& device, const Clock& clock, std::size_t quota_bytes,
            bool enable_eviction = false);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // `bytes` > 0. A free block of the class; else new memory, for which cached blocks of other
  // classes and, with eviction, the least recently used live blocks make room.
  BlockId allocate(std::size_t bytes);
  // Memory on the GPU joins the free list of its class.
  void free(BlockId id);
  void touch(BlockId id);  // most recently used

  // To host memory; nothing to do when it is there.
  void evict(BlockId id);
  // Back to the GPU, at another address; nothing to do when it is there. Most recently used.
  void restore(BlockId id);

  // The bytes of a block, wherever it is. kValue when offset + bytes pass its size. Most recently
  // used.
  void write(BlockId id, const void* src, std::size_t bytes, std::size_t offset = 0);
  void read(BlockId id, void* dst, std::size_t bytes, std::size_t offset = 0);

  [[nodiscard]] std::optional<BlockInfo> get_block(BlockId id) const;
  // kState while evicted.
  [[nodiscard]] std::uint64_t device_ptr(BlockId id) const;
  [[nodiscard]] BlockPoolStats stats() const;
  [[nodiscard]] std::size_t quota() const noexcept { return quota_bytes_; }
  [[nodiscard]] bool eviction_enabled() const noexcept { return enable_eviction_; }
  std::size_t trim();  // gives cached blocks back to the device; bytes
  void clear();        // frees every block, live or cached; the counters stay

 private:
  struct Block {
    std::size_t size_bytes = 0;
    std::uint64_t device_ptr = 0;
    void* host_ptr = nullptr;
    std::int64_t last_access_ns = 0;
    std::uint64_t use = 0;  // key in uses_; 0 while not on the GPU
    [[nodiscard]] bool on_gpu() const noexcept { return device_ptr != 0; }
  };

  Block& block(const char* what, BlockId id);
  [[nodiscard]] const Block& block(const char* what, BlockId id) const;
  static void check_range(const char* what, BlockId id, const Block& of, std::size_t bytes,
                          std::size_t offset);
  std::uint64_t take_device_memory(std::size_t size_bytes, bool& reused);
  bool make_room();
  bool drop_largest_cached();
  bool evict_oldest();
  void evict_block(Block& victim);
  void mark_used(BlockId id, Block& of);
  [[nodiscard]] std::size_t reserved() const noexcept { return stats_.used + stats_.cached; }
  [[noreturn]] void throw_no_memory(std::size_t size_bytes, const char* reason) const;

  BlockDevice& device_;
  const Clock& clock_;
  const std::size_t quota_bytes_;
  const bool enable_eviction_;
  mutable std::mutex mutex_;
  BlockId next_id_ = 0;
  std::uint64_t last_use_ = 0;
  std::map<BlockId, Block> blocks_;
  std::map<std::uint64_t, BlockId> uses_;  // blocks on the GPU, least recently used first
  std::map<std::size_t, std::vector<std::uint64_t>> cached_;  // by class, last in first out
  BlockPoolStats stats_;
};

}  // namespace gpk::runtime
