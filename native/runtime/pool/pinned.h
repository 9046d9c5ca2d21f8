// Page-locked host memory by size classes, pooled and tied to tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/clock.h"

namespace gpk::runtime {

// Where the memory comes from, injected.
class PinnedAllocator {
 public:
  virtual ~PinnedAllocator() = default;
  // At least `bytes`, aligned; nullptr or std::bad_alloc when there is none.
  virtual void* allocate(std::size_t bytes, std::size_t alignment) = 0;
  virtual void free(void* ptr, std::size_t bytes) noexcept = 0;
};

struct PinnedPoolConfig {
  std::size_t max_size = std::size_t{1} << 30;  // bytes of live and pooled blocks together
  bool enable_pooling = true;
  std::size_t alignment = 256;  // a power of two
};

struct PinnedBlock {
  std::uint64_t id = 0;
  void* host_ptr = nullptr;
  std::size_t size_bytes = 0;  // of the class; as given for memory of others
  bool outside = false;        // memory of others, registered
  std::string task_id;         // empty: none
  std::int64_t last_access_ns = 0;
};

struct PinnedStats {
  std::size_t max_size_bytes = 0;
  std::size_t used_bytes = 0;  // live blocks of this manager
  std::size_t pooled_bytes = 0;
  std::size_t outside_bytes = 0;  // registered memory of others; not limited
  std::size_t peak_bytes = 0;     // of used and pooled together
  std::size_t num_active = 0;     // live blocks, with those of others
  std::size_t num_pooled = 0;
  std::uint64_t num_allocations = 0;
  std::uint64_t num_reuses = 0;
  std::uint64_t num_frees = 0;
};

// Thread safe. Errors: kMemory when the limit or the machine has no room, kValue for ids that are
// not live and arguments out of range.
class PinnedMemoryManager {
 public:
  struct Allocation {
    std::uint64_t id;
    std::size_t size_bytes;  // of the class
    bool reused;             // came from the pool
  };
  struct Freed {
    bool free_now;   // memory of others: its owner may free it now
    void* host_ptr;  // no longer to be used
  };

  // 4K 64K 256K 1M 4M 16M 64M 256M; above, a multiple of the alignment.
  [[nodiscard]] static std::size_t size_class(std::size_t bytes, std::size_t alignment);

  // `allocator` and `clock` outlive the manager.
  PinnedMemoryManager(PinnedAllocator& allocator, const Clock& clock, PinnedPoolConfig config = {});
  ~PinnedMemoryManager();
  PinnedMemoryManager(const PinnedMemoryManager&) = delete;
  PinnedMemoryManager& operator=(const PinnedMemoryManager&) = delete;

  // Whether the limit has room for `bytes`, pooled memory being given up for it.
  [[nodiscard]] bool can_allocate(std::size_t bytes) const;
  // `bytes` > 0. Pooled blocks of other classes are freed when the limit asks for it.
  Allocation allocate(std::size_t bytes);
  // Memory of others under an id of the caller's choice, not live yet; or in place of the memory of
  // a live block of this manager, which is freed.
  void register_block(std::uint64_t id, void* host_ptr, std::size_t size_bytes);
  Freed free(std::uint64_t id);

  void associate_task(std::uint64_t id, const std::string& task_id);  // empty: no task
  void touch(std::uint64_t id);
  [[nodiscard]] std::optional<PinnedBlock> get(std::uint64_t id) const;
  [[nodiscard]] std::vector<std::uint64_t> get_blocks_for_task(const std::string& task_id) const;
  // Frees the task's blocks; what free() returns, by ascending id.
  std::vector<Freed> free_task_blocks(const std::string& task_id);

  [[nodiscard]] PinnedStats stats() const;
  [[nodiscard]] std::size_t active_count() const;
  std::size_t clear_pool();  // bytes given back
  void clear();              // frees everything; memory of others is forgotten
  [[nodiscard]] const PinnedPoolConfig& config() const noexcept { return config_; }

 private:
  PinnedBlock& block(const char* what, std::uint64_t id);
  void* take_memory(std::size_t asked_bytes, std::size_t size_bytes, bool& reused);
  void* ask_allocator(std::size_t size_bytes);
  void drop_pooled(std::size_t needed_bytes);
  void insert(PinnedBlock block);
  Freed free_locked(std::uint64_t id);
  void give_back(void* ptr, std::size_t bytes);
  [[noreturn]] void throw_no_memory(std::size_t asked_bytes, std::size_t size_bytes,
                                    const std::string& reason) const;

  PinnedAllocator& allocator_;
  const Clock& clock_;
  const PinnedPoolConfig config_;
  mutable std::mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, PinnedBlock> blocks_;
  std::map<std::string, std::set<std::uint64_t>> by_task_;
  std::map<std::size_t, std::vector<void*>> pool_;  // by size, last in first out
  PinnedStats stats_;
};

}  // namespace gpk::runtime
