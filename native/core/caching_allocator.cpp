// The simple caching allocator behind core/memory.h: every block is one driver allocation, rounded
// to a size class; freed blocks wait in a list of their stream.
#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/config.h"
#include "core/context.h"
#include "core/error.h"
#include "core/memory.h"

namespace gpk {
namespace {

constexpr std::size_t kSmallest = 512;
constexpr std::size_t kLarge = std::size_t{64} << 20;  // above: multiples of kGranule
constexpr std::size_t kGranule = std::size_t{2} << 20;

// Four steps per power of two, so that at most a fifth of a block is waste; large blocks are cut
// to the driver's own granule.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = bytes > kLarge ? kGranule : std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

enum class Kind { kCommon, kCapture };

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator(Context& context, Kind kind) : context_(context), kind_(kind) {
    const Config& config = Config::get();
    stats_.limit_bytes = config.memory_limit_bytes;
    if (config.memory_limit_fraction > 0.0)
      stats_.limit_bytes = static_cast<std::size_t>(
          config.memory_limit_fraction * static_cast<double>(context.traits().total_memory_bytes));
  }

  ~CachingAllocator() override {
    try {
      const std::lock_guard lock(mutex_);
      release_cached();
    } catch (...) {  // a lost device frees its memory with the process
    }
  }

  cu::DevicePtr allocate(std::size_t bytes, cu::Stream stream) override {
    const std::lock_guard lock(mutex_);
    if (bytes > (std::size_t{1} << 62)) throw_out_of_memory(bytes);  // rounding would overflow
    const std::size_t rounded = size_class(bytes);
    ++stats_.num_allocations;
    cu::DevicePtr ptr = take_cached(stream, rounded);
    if (ptr != 0) {
      ++stats_.num_reuses;
      stats_.cached_bytes -= rounded;
    } else {
      ptr = allocate_from_driver(bytes, rounded);
    }
    stats_.used_bytes += rounded;
    stats_.peak_used_bytes = std::max(stats_.peak_used_bytes, stats_.used_bytes);
    return ptr;
  }

  void free(cu::DevicePtr ptr, std::size_t bytes, cu::Stream stream) noexcept override {
    const std::size_t rounded = size_class(bytes);
    const std::lock_guard lock(mutex_);
    stats_.used_bytes -= rounded;
    try {
      cached_[stream][rounded].push_back(ptr);
      stats_.cached_bytes += rounded;
    } catch (...) {  // no host memory for the list: let the driver have the block
      give_back(ptr, rounded);
    }
  }

  void forget_stream(cu::Stream stream) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = cached_.find(stream);
    if (found == cached_.end() || kind_ == Kind::kCapture) return;
    for (const auto& [rounded, blocks] : found->second)
      for (const cu::DevicePtr ptr : blocks) {
        give_back(ptr, rounded);
        stats_.cached_bytes -= rounded;
      }
    cached_.erase(found);
  }

  std::size_t trim() override {
    const std::lock_guard lock(mutex_);
    return kind_ == Kind::kCapture ? 0 : release_cached();
  }

  [[nodiscard]] AllocatorStats stats() const override {
    const std::lock_guard lock(mutex_);
    AllocatorStats result = stats_;
    result.largest_cached_bytes = largest_cached();
    return result;
  }

 private:
  using Lists = std::map<std::size_t, std::vector<cu::DevicePtr>>;  // by rounded size

  cu::DevicePtr take_cached(cu::Stream stream, std::size_t rounded) {
    const auto lists = cached_.find(stream);
    if (lists == cached_.end()) return 0;
    const auto blocks = lists->second.find(rounded);
    if (blocks == lists->second.end() || blocks->second.empty()) return 0;
    const cu::DevicePtr ptr = blocks->second.back();
    blocks->second.pop_back();
    return ptr;
  }

  // Counts the block first, so that threads together stay within the limit.
  bool reserve(std::size_t rounded) {
    const std::size_t before = context_.reserved_bytes().fetch_add(rounded);
    if (stats_.limit_bytes == 0 || before + rounded <= stats_.limit_bytes) return true;
    context_.reserved_bytes().fetch_sub(rounded);
    return false;
  }

  // Cached blocks of the common allocator; those of a capture belong to its graph.
  std::size_t make_room() {
    return kind_ == Kind::kCommon ? release_cached() : context_.allocator()->trim();
  }

  cu::DevicePtr allocate_from_driver(std::size_t bytes, std::size_t rounded) {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    if (!reserve(rounded)) {
      make_room();
      if (!reserve(rounded)) throw_out_of_memory(bytes);
    }
    cu::DevicePtr ptr = 0;
    cu::Result result = driver().cuMemAlloc(&ptr, rounded);
    if (result == cu::kOutOfMemory && make_room() > 0) result = driver().cuMemAlloc(&ptr, rounded);
    if (result != cu::kSuccess) context_.reserved_bytes().fetch_sub(rounded);
    if (result == cu::kOutOfMemory) throw_out_of_memory(bytes);
    check_cuda(result, "cuMemAlloc");
    return ptr;
  }

  void give_back(cu::DevicePtr ptr, std::size_t rounded) noexcept {
    driver().cuMemFree(ptr);  // waits for pending users
    context_.reserved_bytes().fetch_sub(rounded);
  }

  std::size_t release_cached() {
    if (stats_.cached_bytes == 0) return 0;
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    for (const auto& [stream, lists] : cached_)
      for (const auto& [rounded, blocks] : lists)
        for (const cu::DevicePtr ptr : blocks) give_back(ptr, rounded);
    cached_.clear();
    return std::exchange(stats_.cached_bytes, 0);
  }

  [[nodiscard]] std::size_t largest_cached() const {
    std::size_t largest = 0;
    for (const auto& [stream, lists] : cached_)
      for (const auto& [rounded, blocks] : lists)
        if (!blocks.empty()) largest = std::max(largest, rounded);
    return largest;
  }

  [[noreturn]] void throw_out_of_memory(std::size_t bytes) {
    OutOfMemory::Numbers numbers;
    numbers.asked_bytes = bytes;
    numbers.used_bytes = stats_.used_bytes;
    numbers.cached_bytes = stats_.cached_bytes;
    numbers.largest_free_bytes = largest_cached();
    numbers.limit_bytes = stats_.limit_bytes;
    std::size_t total = 0;
    context_.make_current();
    driver().cuMemGetInfo(&numbers.device_free_bytes, &total);
    throw OutOfMemory("allocate", numbers);
  }

  Context& context_;
  Kind kind_;
  mutable std::mutex mutex_;
  AllocatorStats stats_;
  std::unordered_map<cu::Stream, Lists> cached_;
};

}  // namespace

std::shared_ptr<Allocator> make_caching_allocator(Context& context) {
  return std::make_shared<CachingAllocator>(context, Kind::kCommon);
}

std::shared_ptr<Allocator> make_capture_pool(Context& context) {
  return std::make_shared<CachingAllocator>(context, Kind::kCapture);
}

}  // namespace gpk
