#include "runtime/pool/block_pool.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kSmallestClass = 256;
constexpr std::size_t kLargestClass = std::size_t{256} << 20;
constexpr std::size_t kGranule = std::size_t{1} << 20;
constexpr std::size_t kMaxBytes = std::size_t{1} << 62;  // rounding up stays in range

}  // namespace

std::size_t BlockPool::size_class(std::size_t bytes) {
  for (std::size_t size = kSmallestClass; size <= kLargestClass; size *= 4)
    if (bytes <= size) return size;
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

BlockPool::BlockPool(BlockDevice& device, const Clock& clock, std::size_t quota_bytes,
                     bool enable_eviction)
    : device_(device), clock_(clock), quota_bytes_(quota_bytes), enable_eviction_(enable_eviction) {
  if (quota_bytes == 0)
    throw Error(Error::Kind::kValue, "MemoryPool: quota must be above 0 bytes, got 0");
  stats_.quota = quota_bytes;
}

BlockPool::~BlockPool() { clear(); }

const BlockPool::Block& BlockPool::block(const char* what, BlockId id) const {
  const auto found = blocks_.find(id);
  if (found == blocks_.end())
    throw Error(Error::Kind::kValue,
                std::string("MemoryPool: ") + what + ": no block " + std::to_string(id));
  return found->second;
}

BlockPool::Block& BlockPool::block(const char* what, BlockId id) {
  return const_cast<Block&>(std::as_const(*this).block(what, id));
}

BlockId BlockPool::allocate(std::size_t bytes) {
  if (bytes == 0)
    throw Error(Error::Kind::kValue, "MemoryPool: allocate: size must be above 0 bytes, got 0");
  const std::lock_guard lock(mutex_);
  if (bytes > kMaxBytes) throw_no_memory(bytes, "above the quota");
  const std::size_t size = size_class(bytes);
  const auto added = blocks_.try_emplace(next_id_).first;
  bool reused = false;
  try {
    added->second.device_ptr = take_device_memory(size, reused);
  } catch (...) {
    blocks_.erase(added);
    throw;
  }
  added->second.size_bytes = size;
  stats_.used += size;
  ++stats_.allocation_count;
  if (reused) ++stats_.reuse_count;
  mark_used(next_id_, added->second);
  return next_id_++;
}

// Memory that is neither used nor cached afterwards; the caller counts it.
std::uint64_t BlockPool::take_device_memory(std::size_t size_bytes, bool& reused) {
  const auto list = cached_.find(size_bytes);
  if (list != cached_.end()) {
    const std::uint64_t ptr = list->second.back();
    list->second.pop_back();
    if (list->second.empty()) cached_.erase(list);
    stats_.cached -= size_bytes;
    --stats_.free_blocks;
    reused = true;
    return ptr;
  }
  if (size_bytes > quota_bytes_) throw_no_memory(size_bytes, "above the quota");
  while (reserved() > quota_bytes_ - size_bytes)
    if (!make_room()) throw_no_memory(size_bytes, "the quota is used up");
  std::uint64_t ptr = device_.allocate(size_bytes);
  while (ptr == 0) {
    if (!make_room()) throw_no_memory(size_bytes, "the device has no memory left");
    ptr = device_.allocate(size_bytes);
  }
  ++stats_.cudamalloc_count;
  return ptr;
}

bool BlockPool::make_room() {
  return drop_largest_cached() || (enable_eviction_ && evict_oldest());
}

bool BlockPool::drop_largest_cached() {
  if (cached_.empty()) return false;
  const auto largest = std::prev(cached_.end());
  device_.free(largest->second.back(), largest->first);
  stats_.cached -= largest->first;
  --stats_.free_blocks;
  largest->second.pop_back();
  if (largest->second.empty()) cached_.erase(largest);
  return true;
}

bool BlockPool::evict_oldest() {
  if (uses_.empty()) return false;
  evict_block(blocks_.at(uses_.begin()->second));
  return true;
}

void BlockPool::evict_block(Block& victim) {
  void* const host = device_.allocate_host(victim.size_bytes);
  if (host == nullptr) throw_no_memory(victim.size_bytes, "the host has no memory to evict to");
  try {
    device_.copy_to_host(host, victim.device_ptr, victim.size_bytes);
  } catch (...) {
    device_.free_host(host, victim.size_bytes);
    throw;
  }
  device_.free(std::exchange(victim.device_ptr, 0), victim.size_bytes);
  victim.host_ptr = host;
  uses_.erase(std::exchange(victim.use, 0));
  stats_.used -= victim.size_bytes;
  stats_.evicted_bytes += victim.size_bytes;
  ++stats_.eviction_count;
}

void BlockPool::mark_used(BlockId id, Block& of) {
  of.last_access_ns = clock_.now_ns();
  if (!of.on_gpu()) return;
  uses_.erase(of.use);
  of.use = ++last_use_;
  uses_.emplace(of.use, id);
}

void BlockPool::free(BlockId id) {
  const std::lock_guard lock(mutex_);
  const Block freed = block("free", id);
  if (freed.on_gpu()) {
    cached_[freed.size_bytes].push_back(freed.device_ptr);
    uses_.erase(freed.use);
    stats_.used -= freed.size_bytes;
    stats_.cached += freed.size_bytes;
    ++stats_.free_blocks;
  } else {
    device_.free_host(freed.host_ptr, freed.size_bytes);
    stats_.evicted_bytes -= freed.size_bytes;
  }
  blocks_.erase(id);
}

void BlockPool::touch(BlockId id) {
  const std::lock_guard lock(mutex_);
  mark_used(id, block("touch", id));
}

void BlockPool::evict(BlockId id) {
  const std::lock_guard lock(mutex_);
  Block& victim = block("evict", id);
  if (victim.on_gpu()) evict_block(victim);
}

void BlockPool::restore(BlockId id) {
  const std::lock_guard lock(mutex_);
  Block& restored = block("restore", id);
  if (!restored.on_gpu()) {
    const std::size_t size = restored.size_bytes;
    bool reused = false;
    const std::uint64_t ptr = take_device_memory(size, reused);
    try {
      device_.copy_to_device(ptr, restored.host_ptr, size);
    } catch (...) {
      device_.free(ptr, size);
      throw;
    }
    device_.free_host(std::exchange(restored.host_ptr, nullptr), size);
    restored.device_ptr = ptr;
    stats_.used += size;
    stats_.evicted_bytes -= size;
    ++stats_.restore_count;
  }
  mark_used(id, restored);
}

void BlockPool::check_range(const char* what, BlockId id, const Block& of, std::size_t bytes,
                            std::size_t offset) {
  if (offset <= of.size_bytes && bytes <= of.size_bytes - offset) return;
  throw Error(Error::Kind::kValue,
              std::string("MemoryPool: ") + what + ": " + std::to_string(bytes) + " bytes at " +
                  std::to_string(offset) + " pass the " + std::to_string(of.size_bytes) +
                  " bytes of block " + std::to_string(id));
}

void BlockPool::write(BlockId id, const void* src, std::size_t bytes, std::size_t offset) {
  const std::lock_guard lock(mutex_);
  Block& to = block("write", id);
  check_range("write", id, to, bytes, offset);
  if (bytes > 0 && to.on_gpu())
    device_.copy_to_device(to.device_ptr + offset, src, bytes);
  else if (bytes > 0)
    std::memcpy(static_cast<std::byte*>(to.host_ptr) + offset, src, bytes);
  mark_used(id, to);
}

void BlockPool::read(BlockId id, void* dst, std::size_t bytes, std::size_t offset) {
  const std::lock_guard lock(mutex_);
  Block& from = block("read", id);
  check_range("read", id, from, bytes, offset);
  if (bytes > 0 && from.on_gpu())
    device_.copy_to_host(dst, from.device_ptr + offset, bytes);
  else if (bytes > 0)
    std::memcpy(dst, static_cast<const std::byte*>(from.host_ptr) + offset, bytes);
  mark_used(id, from);
}

std::optional<BlockInfo> BlockPool::get_block(BlockId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return std::nullopt;
  const Block& of = found->second;
  return BlockInfo{id,          of.size_bytes,          of.device_ptr,
                   of.on_gpu(), of.host_ptr != nullptr, of.last_access_ns};
}

std::uint64_t BlockPool::device_ptr(BlockId id) const {
  const std::lock_guard lock(mutex_);
  const Block& of = block("device_ptr", id);
  if (!of.on_gpu())
    throw Error(Error::Kind::kState,
                "MemoryPool: block " + std::to_string(id) + " is evicted; restore it first");
  return of.device_ptr;
}

BlockPoolStats BlockPool::stats() const {
  const std::lock_guard lock(mutex_);
  BlockPoolStats now = stats_;
  now.available = quota_bytes_ - now.used;
  now.active_blocks = blocks_.size();
  return now;
}

std::size_t BlockPool::trim() {
  const std::lock_guard lock(mutex_);
  const std::size_t before = stats_.cached;
  while (drop_largest_cached()) {
  }
  return before;
}

void BlockPool::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, of] : blocks_) {
    if (of.on_gpu())
      device_.free(of.device_ptr, of.size_bytes);
    else
      device_.free_host(of.host_ptr, of.size_bytes);
  }
  blocks_.clear();
  uses_.clear();
  stats_.used = 0;
  stats_.evicted_bytes = 0;
  while (drop_largest_cached()) {
  }
}

void BlockPool::throw_no_memory(std::size_t size_bytes, const char* reason) const {
  throw Error(Error::Kind::kMemory,
              "MemoryPool: cannot get a block of " + std::to_string(size_bytes) +
                  " bytes: " + reason + "; used " + std::to_string(stats_.used) + ", cached " +
                  std::to_string(stats_.cached) + ", evicted " +
                  std::to_string(stats_.evicted_bytes) + ", quota " + std::to_string(quota_bytes_) +
                  (enable_eviction_ ? "" : ", eviction off"));
}

}  // namespace gpk::runtime
