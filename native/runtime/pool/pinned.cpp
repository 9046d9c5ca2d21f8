#include "runtime/pool/pinned.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kClasses[] = {4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB,
                                    4 * kMiB, 16 * kMiB, 64 * kMiB,  256 * kMiB};
constexpr std::size_t kMaxBytes = std::size_t{1} << 62;  // rounding up stays in range

}  // namespace

std::size_t PinnedMemoryManager::size_class(std::size_t bytes, std::size_t alignment) {
  for (const std::size_t size : kClasses)
    if (bytes <= size) return std::max(size, alignment);
  return (bytes + alignment - 1) / alignment * alignment;
}

PinnedMemoryManager::PinnedMemoryManager(PinnedAllocator& allocator, const Clock& clock,
                                         PinnedPoolConfig config)
    : allocator_(allocator), clock_(clock), config_(config) {
  if (!std::has_single_bit(config.alignment) || config.alignment > kMiB)
    throw Error(Error::Kind::kValue,
                "PinnedPoolConfig: alignment must be a power of two up to 1 MiB, got " +
                    std::to_string(config.alignment));
  stats_.max_size_bytes = config.max_size;
}

PinnedMemoryManager::~PinnedMemoryManager() { clear(); }

bool PinnedMemoryManager::can_allocate(std::size_t bytes) const {
  if (bytes == 0 || bytes > kMaxBytes) return false;
  const std::size_t size = size_class(bytes, config_.alignment);
  const std::lock_guard lock(mutex_);
  return size <= config_.max_size && stats_.used_bytes <= config_.max_size - size;
}

PinnedMemoryManager::Allocation PinnedMemoryManager::allocate(std::size_t bytes) {
  if (bytes == 0)
    throw Error(Error::Kind::kValue, "PinnedMemoryManager: size must be at least 1 byte, got 0");
  const std::lock_guard lock(mutex_);
  if (bytes > kMaxBytes) throw_no_memory(bytes, bytes, "above the limit");
  const std::size_t size = size_class(bytes, config_.alignment);
  bool reused = false;
  void* const memory = take_memory(bytes, size, reused);
  PinnedBlock block;
  block.id = next_id_;
  block.host_ptr = memory;
  block.size_bytes = size;
  block.last_access_ns = clock_.now_ns();
  try {
    insert(std::move(block));
  } catch (...) {
    allocator_.free(memory, size);
    throw;
  }
  stats_.used_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.used_bytes + stats_.pooled_bytes);
  ++stats_.num_allocations;
  if (reused) ++stats_.num_reuses;
  return {next_id_++, size, reused};
}

void* PinnedMemoryManager::take_memory(std::size_t asked_bytes, std::size_t size_bytes,
                                       bool& reused) {
  const auto pooled = pool_.find(size_bytes);
  if (pooled != pool_.end()) {
    void* const memory = pooled->second.back();
    pooled->second.pop_back();
    if (pooled->second.empty()) pool_.erase(pooled);
    stats_.pooled_bytes -= size_bytes;
    --stats_.num_pooled;
    reused = true;
    return memory;
  }
  if (size_bytes > config_.max_size || stats_.used_bytes > config_.max_size - size_bytes)
    throw_no_memory(asked_bytes, size_bytes, "above the limit");
  const std::size_t room = config_.max_size - stats_.used_bytes - size_bytes;
  if (stats_.pooled_bytes > room) drop_pooled(stats_.pooled_bytes - room);
  void* memory = ask_allocator(size_bytes);
  if (memory == nullptr && stats_.pooled_bytes > 0) {
    drop_pooled(stats_.pooled_bytes);
    memory = ask_allocator(size_bytes);
  }
  if (memory == nullptr) throw_no_memory(asked_bytes, size_bytes, "the machine has none left");
  return memory;
}

void* PinnedMemoryManager::ask_allocator(std::size_t size_bytes) {
  try {
    return allocator_.allocate(size_bytes, config_.alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// The largest first: the fewest calls of the allocator.
void PinnedMemoryManager::drop_pooled(std::size_t needed_bytes) {
  std::size_t dropped = 0;
  while (dropped < needed_bytes && !pool_.empty()) {
    const auto largest = std::prev(pool_.end());
    allocator_.free(largest->second.back(), largest->first);
    dropped += largest->first;
    stats_.pooled_bytes -= largest->first;
    --stats_.num_pooled;
    largest->second.pop_back();
    if (largest->second.empty()) pool_.erase(largest);
  }
}

void PinnedMemoryManager::insert(PinnedBlock block) {
  const std::uint64_t id = block.id;
  blocks_.emplace(id, std::move(block));
  ++stats_.num_active;
}

void PinnedMemoryManager::register_block(std::uint64_t id, void* host_ptr, std::size_t size_bytes) {
  if (host_ptr == nullptr || size_bytes == 0)
    throw Error(Error::Kind::kValue,
                "PinnedMemoryManager: register needs memory, got address " +
                    std::to_string(reinterpret_cast<std::uintptr_t>(host_ptr)) + " of " +
                    std::to_string(size_bytes) + " bytes");
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) {
    PinnedBlock added;
    added.id = id;
    added.host_ptr = host_ptr;
    added.size_bytes = size_bytes;
    added.outside = true;
    added.last_access_ns = clock_.now_ns();
    insert(std::move(added));
    next_id_ = std::max(next_id_, id + 1);
  } else {
    PinnedBlock& own = found->second;
    if (own.outside)
      throw Error(Error::Kind::kValue,
                  "PinnedMemoryManager: block " + std::to_string(id) + " is registered already");
    stats_.used_bytes -= own.size_bytes;
    give_back(std::exchange(own.host_ptr, host_ptr), std::exchange(own.size_bytes, size_bytes));
    own.outside = true;
  }
  stats_.outside_bytes += size_bytes;
}

PinnedMemoryManager::Freed PinnedMemoryManager::free(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  return free_locked(id);
}

PinnedMemoryManager::Freed PinnedMemoryManager::free_locked(std::uint64_t id) {
  const PinnedBlock freed = block("free", id);
  if (!freed.task_id.empty()) {
    const auto tasks = by_task_.find(freed.task_id);
    tasks->second.erase(id);
    if (tasks->second.empty()) by_task_.erase(tasks);
  }
  blocks_.erase(id);
  --stats_.num_active;
  ++stats_.num_frees;
  if (freed.outside) {
    stats_.outside_bytes -= freed.size_bytes;
    return {true, freed.host_ptr};
  }
  stats_.used_bytes -= freed.size_bytes;
  give_back(freed.host_ptr, freed.size_bytes);
  return {false, freed.host_ptr};
}

void PinnedMemoryManager::give_back(void* ptr, std::size_t bytes) {
  if (config_.enable_pooling) {
    try {
      pool_[bytes].push_back(ptr);
      stats_.pooled_bytes += bytes;
      ++stats_.num_pooled;
      return;
    } catch (const std::bad_alloc&) {  // no memory to remember it by
      if (pool_.contains(bytes) && pool_[bytes].empty()) pool_.erase(bytes);
    }
  }
  allocator_.free(ptr, bytes);
}

PinnedBlock& PinnedMemoryManager::block(const char* what, std::uint64_t id) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end())
    throw Error(Error::Kind::kValue,
                std::string("PinnedMemoryManager: ") + what + ": no block " + std::to_string(id));
  return found->second;
}

void PinnedMemoryManager::associate_task(std::uint64_t id, const std::string& task_id) {
  const std::lock_guard lock(mutex_);
  PinnedBlock& of = block("associate_task", id);
  if (of.task_id == task_id) return;
  if (!task_id.empty()) by_task_[task_id].insert(id);
  if (!of.task_id.empty()) {
    const auto before = by_task_.find(of.task_id);
    before->second.erase(id);
    if (before->second.empty()) by_task_.erase(before);
  }
  of.task_id = task_id;
}

void PinnedMemoryManager::touch(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  block("touch", id).last_access_ns = clock_.now_ns();
}

std::optional<PinnedBlock> PinnedMemoryManager::get(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::uint64_t> PinnedMemoryManager::get_blocks_for_task(
    const std::string& task_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_task_.find(task_id);
  if (found == by_task_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<PinnedMemoryManager::Freed> PinnedMemoryManager::free_task_blocks(
    const std::string& task_id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_task_.find(task_id);
  if (found == by_task_.end()) return {};
  const std::vector<std::uint64_t> ids(found->second.begin(), found->second.end());
  std::vector<Freed> freed;
  freed.reserve(ids.size());
  for (const std::uint64_t id : ids) freed.push_back(free_locked(id));
  return freed;
}

PinnedStats PinnedMemoryManager::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::size_t PinnedMemoryManager::active_count() const {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}

std::size_t PinnedMemoryManager::clear_pool() {
  const std::lock_guard lock(mutex_);
  const std::size_t before = stats_.pooled_bytes;
  drop_pooled(before);
  return before;
}

void PinnedMemoryManager::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, block] : blocks_)
    if (!block.outside) allocator_.free(block.host_ptr, block.size_bytes);
  blocks_.clear();
  by_task_.clear();
  stats_.used_bytes = 0;
  stats_.outside_bytes = 0;
  stats_.num_active = 0;
  drop_pooled(stats_.pooled_bytes);
}

void PinnedMemoryManager::throw_no_memory(std::size_t asked_bytes, std::size_t size_bytes,
                                          const std::string& reason) const {
  throw Error(Error::Kind::kMemory, "PinnedMemoryManager: cannot allocate " +
                                        std::to_string(asked_bytes) + " bytes (class " +
                                        std::to_string(size_bytes) + "): " + reason + "; used " +
                                        std::to_string(stats_.used_bytes) + ", pooled " +
                                        std::to_string(stats_.pooled_bytes) + ", limit " +
                                        std::to_string(config_.max_size));
}

}  // namespace gpk::runtime
