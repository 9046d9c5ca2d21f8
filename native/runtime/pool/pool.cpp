#include "runtime/pool/pool.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/round_up.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 62;  // above, rounding would overflow
constexpr std::size_t kFreesPerPoll = 64;

// Undoes the charge on every exit but success.
class ChargeScope {
 public:
  ChargeScope(PoolAccount* account, std::size_t bytes) : account_(account), bytes_(bytes) {}
  ~ChargeScope() {
    if (account_ != nullptr) account_->uncharge(bytes_);
  }
  ChargeScope(const ChargeScope&) = delete;
  ChargeScope& operator=(const ChargeScope&) = delete;
  void keep() noexcept { account_ = nullptr; }

 private:
  PoolAccount* account_;
  std::size_t bytes_;
};

PoolOptions checked(const PoolDevice& device, PoolOptions options) {
  const auto fail = [](const std::string& what) {
    throw Error(Error::Kind::kValue, "Pool: " + what);
  };
  const std::size_t granularity = device.granularity_bytes();
  if (!std::has_single_bit(options.chunk_bytes) || options.chunk_bytes % granularity != 0)
    fail("chunk_bytes is " + std::to_string(options.chunk_bytes) +
         ", expected a power of two and a multiple of the granularity, " +
         std::to_string(granularity));
  if (options.small_max_bytes > PoolSizeClass::kMaxBytes)
    fail("small_max_bytes is " + std::to_string(options.small_max_bytes) + ", expected at most " +
         std::to_string(PoolSizeClass::kMaxBytes));
  if (options.quota_bytes != 0 && options.quota_bytes < options.chunk_bytes)
    fail("quota_bytes is " + std::to_string(options.quota_bytes) +
         ", expected 0 or at least a chunk, " + std::to_string(options.chunk_bytes));
  const auto round = [&options](std::size_t bytes) {
    const std::size_t num = bytes / options.chunk_bytes;
    return std::max<std::size_t>(num, 1) * options.chunk_bytes;
  };
  options.region_bytes = round(options.region_bytes);
  options.segment_bytes = round(options.segment_bytes);
  return options;
}

}  // namespace

Pool::Pool(PoolDevice& device, PoolOptions options)
    : options_(checked(device, std::move(options))),
      evict_from_bytes_(options_.evict_from_bytes),
      device_(device),
      streams_(device_),
      space_(device_, options_.chunk_bytes, options_.region_bytes, options_.quota_bytes),
      common_(0, PoolArena::Kind::kCommon),
      heap_(space_, streams_, options_.segment_bytes),
      pending_(device_, streams_),
      evictor_(device_, space_, heap_, streams_, options_.max_host_bytes),
      caches_(*this) {}

Pool::~Pool() {
  // Memory must not be unmapped under running work. Failed waits are ignored: that device is lost.
  const auto quietly = [](auto&& call) {
    try {
      call();
    } catch (...) {
    }
  };
  take_back(caches_.empty(nullptr));
  Lock lock(mutex_);
  quietly([&] { drain_pending(lock); });
  for (PoolStream* stream : streams_.all()) quietly([&] { streams_.settle(stream, waiter(lock)); });
}

void Pool::check_live(const PoolBlock* block, const char* what) const {
  if (block == nullptr || !block->live.load(std::memory_order_relaxed)) [[unlikely]]
    throw Error(Error::Kind::kValue, std::string("Pool: ") + what +
                                         " of a block that is not in use, expected one that "
                                         "allocate() returned and that was not freed since");
}

void Pool::count_central(std::int64_t bytes, std::int64_t num) noexcept {
  central_used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  central_num_blocks_.fetch_add(num, std::memory_order_relaxed);
  if (num > 0) central_num_allocations_.fetch_add(num, std::memory_order_relaxed);
}

// Evicted bytes do not count as used.
void Pool::count_evicted() noexcept {
  const std::size_t now = evictor_.counters().evicted_bytes;
  const std::size_t before = std::exchange(seen_evicted_bytes_, now);
  central_used_bytes_.fetch_add(static_cast<std::int64_t>(before) - static_cast<std::int64_t>(now),
                                std::memory_order_relaxed);
}

// Call before and after anything that changes the central count: between two calls the peak of the
// thread's own cache is the peak of the total.
void Pool::sample_peak() {
  const PoolCaches::Sums sums = caches_.sample();
  const std::int64_t now = central_used_bytes_.load(std::memory_order_relaxed) + sums.peak_bytes;
  std::int64_t peak = peak_used_bytes_.load(std::memory_order_relaxed);
  while (peak < now && !peak_used_bytes_.compare_exchange_weak(peak, now)) {
  }
}

void Pool::charge(PoolAccount* account, std::size_t bytes, std::size_t asked_bytes) {
  if (account == nullptr || account->charge(bytes)) [[likely]]
    return;
  if (options_.collect) {
    options_.collect();
    if (account->charge(bytes)) return;
  }
  account->count_refusal();
  Lock lock(mutex_);
  throw_out_of_memory(lock, "Pool::allocate", asked_bytes, account, true);
}

PoolBlock* Pool::allocate(std::size_t bytes, Stream stream, const PoolPlace& place) {
  const bool evictable = place.evictable || bytes - 1 >= evict_from() - 1;
  if (bytes - 1 < options_.small_max_bytes && !evictable) [[likely]]
    return allocate_small(bytes, stream, place);
  if (bytes == 0)
    throw Error(Error::Kind::kValue, "Pool: allocate of bytes 0, expected at least 1");
  return allocate_large(bytes, stream, place, evictable && space_.can_map());
}

PoolBlock* Pool::allocate_small(std::size_t asked_bytes, Stream stream, const PoolPlace& place) {
  const std::uint32_t size_class = PoolSizeClass::of(asked_bytes);
  const std::size_t bytes = PoolSizeClass::bytes(size_class);
  charge(place.account, bytes, asked_bytes);
  ChargeScope scope(place.account, bytes);
  PoolThreadCache* cache = place.arena == nullptr ? caches_.mine() : nullptr;
  PoolBlock* block = cache == nullptr ? nullptr : cache->pop(stream, size_class);
  if (block == nullptr) [[unlikely]]
    block = refill(cache, asked_bytes, stream, place);
  scope.keep();
  block->account = place.account;
  block->live.store(true, std::memory_order_relaxed);
  return block;
}

PoolBlock* Pool::refill(PoolThreadCache* cache, std::size_t bytes, Stream stream,
                        const PoolPlace& place) {
  sample_peak();
  const std::size_t capacity = PoolThreadCache::capacity(PoolSizeClass::of(bytes));
  const std::size_t num = cache == nullptr ? 1 : std::max<std::size_t>(1, capacity / 2);
  Lock lock(mutex_);
  PoolBlock* blocks = take_small(lock, bytes, stream, place, num);
  if (cache == nullptr) count_central(static_cast<std::int64_t>(blocks->bytes), 1);
  lock.unlock();
  if (cache != nullptr)
    if (PoolBlock* rest = cache->refill(blocks->span->stream, blocks)) take_back(rest);
  sample_peak();
  return blocks;
}

PoolBlock* Pool::take_free(PoolArena& arena, const PoolStream& stream, std::uint32_t size_class,
                           std::size_t num) noexcept {
  PoolBlock* first = spans_.take(arena, stream, size_class);
  PoolBlock* last = first;
  for (; last != nullptr && num > 1; --num) {
    last->next = spans_.take(arena, stream, size_class);
    if (last->next == nullptr) break;
    last = last->next;
  }
  if (last != nullptr) last->next = nullptr;
  return first;
}

PoolBlock* Pool::take_small(Lock& lock, std::size_t bytes, Stream stream, const PoolPlace& place,
                            std::size_t num) {
  const std::uint32_t size_class = PoolSizeClass::of(bytes);
  const PoolStream* home = streams_.get(stream);
  PoolArena* arena = place.arena == nullptr ? &common_ : check_arena(place.arena, "allocate");
  if (PoolBlock* blocks = take_free(*arena, *home, size_class, num)) return blocks;
  if (poll_pending())
    if (PoolBlock* blocks = take_free(*arena, *home, size_class, num)) return blocks;
  PoolRange* range =
      find_range(lock, PoolSizeClass::span_bytes(size_class), stream, place, kPoolAlignment, bytes);
  try {
    spans_.prepare(*range->arena, *range->stream, size_class);
  } catch (...) {
    heap_.give_back(range);
    throw;
  }
  spans_.add(range, size_class);
  return take_free(*range->arena, *range->stream, size_class, num);
}

PoolBlock* Pool::allocate_large(std::size_t bytes, Stream stream, const PoolPlace& place,
                                bool evictable) {
  const std::size_t unit = evictable ? space_.chunk_bytes() : kPoolAlignment;
  if (bytes > kMaxBytes) {
    Lock lock(mutex_);
    throw_out_of_memory(lock, "Pool::allocate", bytes, place.account, false);
  }
  const std::size_t rounded = round_up(bytes, unit);
  charge(place.account, rounded, bytes);
  ChargeScope scope(place.account, rounded);
  sample_peak();
  Lock lock(mutex_);
  PoolRange* range = find_range(lock, rounded, stream, place, unit, bytes);
  PoolLarge* block = nullptr;
  try {
    evictor_.reserve();
    block = take_large();
  } catch (...) {
    heap_.give_back(range);
    throw;
  }
  range->block = block;
  block->range = range;
  block->address = range->address;
  block->bytes = rounded;
  block->account = place.account;
  block->can_evict = space_.can_map();
  block->evictable = evictable;
  evictor_.enter(block);
  block->live.store(true, std::memory_order_relaxed);
  count_central(static_cast<std::int64_t>(rounded), 1);
  scope.keep();
  lock.unlock();
  sample_peak();
  return block;
}

PoolLarge* Pool::take_large() {
  if (free_larges_ == nullptr) {
    larges_.push_back(std::make_unique<PoolLarge>());
    return larges_.back().get();
  }
  return static_cast<PoolLarge*>(std::exchange(free_larges_, free_larges_->next));
}

void Pool::free(PoolBlock* block, std::span<const Stream> others) {
  check_live(block, "free");
  PoolSpan* span = block->span;
  PoolThreadCache* cache = nullptr;
  if (span != nullptr && others.empty() && span->common.load(std::memory_order_relaxed)) [[likely]]
    cache = caches_.mine();
  if (cache == nullptr) return free_slow(block, others);
  block->live.store(false, std::memory_order_relaxed);
  if (block->account != nullptr) block->account->uncharge(block->bytes);
  if (PoolBlock* spill = cache->push(block, span->stream)) [[unlikely]]
    take_back(spill);
}

void Pool::free_slow(PoolBlock* block, std::span<const Stream> others) {
  sample_peak();
  Lock lock(mutex_);
  auto* large = block->span == nullptr ? static_cast<PoolLarge*>(block) : nullptr;
  if (large != nullptr) await_leaving(lock, large);
  const PoolStream* home = large != nullptr ? large->range->stream : block->span->stream;
  std::vector<PoolStream*> streams;
  if (large != nullptr) streams = large->users;
  for (const Stream id : others) {
    PoolStream* stream = streams_.get(id);
    if (stream != home && std::find(streams.begin(), streams.end(), stream) == streams.end())
      streams.push_back(stream);
  }
  // Nothing fails from here on.
  block->live.store(false, std::memory_order_relaxed);
  if (block->account != nullptr) block->account->uncharge(block->bytes);
  count_central(-static_cast<std::int64_t>(block->bytes), -1);
  const bool waits = !streams.empty() && pending_.add({.block = block}, streams);
  if (large != nullptr) {
    evictor_.leave(large);
    count_evicted();
    for (PoolStream* user : large->users) streams_.drop_ref(user);
    large->users.clear();
  }
  if (!waits) return release_block(block);
  if (++num_frees_since_poll_ >= kFreesPerPoll) {
    try {
      poll_pending();
    } catch (...) {  // the next miss polls again
    }
  }
}

void Pool::release_block(PoolBlock* block) noexcept {
  if (block->span != nullptr) {
    block->next = nullptr;
    if (put_small(block)) listeners_.notify();
    return;
  }
  auto* large = static_cast<PoolLarge*>(block);
  heap_.give_back(std::exchange(large->range, nullptr));
  large->next = std::exchange(free_larges_, large);
  listeners_.notify();
}

bool Pool::put_small(PoolBlock* blocks) noexcept {
  bool any = false;
  while (blocks != nullptr) {
    PoolBlock* block = std::exchange(blocks, blocks->next);
    PoolRange* range = spans_.put(block);
    if (range == nullptr) continue;
    heap_.give_back(range);
    any = true;
  }
  return any;
}

void Pool::take_back(PoolBlock* blocks) noexcept {
  if (blocks == nullptr) return;
  const Lock lock(mutex_);
  if (put_small(blocks)) listeners_.notify();
}

void Pool::forget_stream(Stream id) {
  PoolStream* stream = nullptr;
  {
    const Lock lock(mutex_);
    stream = streams_.find(id);
    if (stream == nullptr) return;
    streams_.add_ref(stream);
    streams_.forget(stream);
    evictor_.forget(stream);
  }
  take_back(caches_.empty(stream));
  const Lock lock(mutex_);
  spans_.release_free(common_, [this](PoolRange* range) { heap_.give_back(range); });
  streams_.drop_ref(stream);
}

}  // namespace gpk::runtime
