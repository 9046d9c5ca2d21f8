#include "runtime/pool/pool_cache.h"

#include <utility>

namespace gpk::runtime {
namespace {

// Pools have ids here: the address of a destroyed pool may be reused.
std::atomic<std::uint64_t> g_last_pool_id{0};

struct Memo {
  std::uint64_t pool_id = 0;
  PoolThreadCache* cache = nullptr;
};
thread_local constinit Memo t_memo;
thread_local constinit bool t_ending = false;  // outlives the caches of the thread

struct ThreadCaches {
  std::vector<std::shared_ptr<PoolThreadCache>> all;
  ThreadCaches() = default;
  ~ThreadCaches() {
    t_ending = true;
    t_memo = {};
    for (const auto& cache : all) cache->end();
  }
  ThreadCaches(const ThreadCaches&) = delete;
  ThreadCaches& operator=(const ThreadCaches&) = delete;
};

ThreadCaches& thread_caches() {
  thread_local ThreadCaches caches;
  return caches;
}

void add(std::atomic<std::int64_t>& value, std::int64_t n) noexcept {
  value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

PoolThreadCache::Lists* PoolThreadCache::find(PoolDevice::Stream id) noexcept {
  if (last_ != nullptr && last_->id == id) [[likely]]
    return last_;
  for (const auto& lists : lists_)
    if (lists->id == id) return last_ = lists.get();
  return nullptr;
}

PoolThreadCache::Lists* PoolThreadCache::get(PoolStream* stream) noexcept {
  if (last_ != nullptr && last_->stream == stream) [[likely]]
    return last_;
  for (const auto& lists : lists_)
    if (lists->stream == stream) return last_ = lists.get();
  try {
    lists_.push_back(std::make_unique<Lists>(stream));
  } catch (...) {  // without a list the blocks return to the pool
    return nullptr;
  }
  return last_ = lists_.back().get();
}

void PoolThreadCache::count(std::int64_t bytes, std::int64_t num) noexcept {
  const std::int64_t used = counters_.used_bytes.load(std::memory_order_relaxed) + bytes;
  counters_.used_bytes.store(used, std::memory_order_relaxed);
  add(counters_.num_blocks, num);
  if (num < 0) return;
  add(counters_.num_allocations, num);
  if (used > counters_.peak_bytes.load(std::memory_order_relaxed))
    counters_.peak_bytes.store(used, std::memory_order_relaxed);
}

PoolBlock* PoolThreadCache::pop(PoolDevice::Stream stream, std::uint32_t size_class) noexcept {
  const std::lock_guard lock(lock_);
  Lists* lists = find(stream);
  if (lists == nullptr) return nullptr;
  PoolBlock* block = lists->first[size_class];
  if (block == nullptr) return nullptr;
  lists->first[size_class] = block->next;
  --lists->count[size_class];
  count(static_cast<std::int64_t>(block->bytes), 1);
  return block;
}

PoolBlock* PoolThreadCache::refill(PoolStream* stream, PoolBlock* blocks) noexcept {
  const std::lock_guard lock(lock_);
  count(static_cast<std::int64_t>(blocks->bytes), 1);
  PoolBlock* rest = std::exchange(blocks->next, nullptr);
  if (rest == nullptr || stream->dead.load(std::memory_order_relaxed)) return rest;
  Lists* lists = get(stream);
  if (lists == nullptr) return rest;
  const std::uint32_t size_class = rest->size_class;
  while (rest != nullptr) {
    PoolBlock* block = std::exchange(rest, rest->next);
    block->next = std::exchange(lists->first[size_class], block);
    ++lists->count[size_class];
  }
  return nullptr;
}

PoolBlock* PoolThreadCache::push(PoolBlock* block, PoolStream* stream) noexcept {
  const std::lock_guard lock(lock_);
  count(-static_cast<std::int64_t>(block->bytes), -1);
  block->next = nullptr;
  // Under the lock: whoever ends the stream sets the flag first and then empties this list.
  if (stream->dead.load(std::memory_order_relaxed)) return block;
  Lists* lists = get(stream);
  if (lists == nullptr) return block;
  const std::uint32_t size_class = block->size_class;
  PoolBlock*& first = lists->first[size_class];
  block->next = first;
  first = block;
  std::uint32_t& num = lists->count[size_class];
  if (++num <= capacity(size_class)) [[likely]]
    return nullptr;
  const std::uint32_t keep = num / 2;  // the newest, most likely still in cache
  PoolBlock* last = first;
  for (std::uint32_t i = 1; i < keep; ++i) last = last->next;
  num = keep;
  return std::exchange(last->next, nullptr);
}

PoolBlock* PoolThreadCache::drain(Lists& lists, PoolBlock* onto) noexcept {
  for (PoolBlock*& first : lists.first)
    while (first != nullptr) {
      PoolBlock* block = std::exchange(first, first->next);
      block->next = std::exchange(onto, block);
    }
  lists.count.fill(0);
  return onto;
}

PoolBlock* PoolThreadCache::empty(const PoolStream* stream) noexcept {
  const std::lock_guard lock(lock_);
  PoolBlock* blocks = nullptr;
  for (const auto& lists : lists_)
    if (stream == nullptr || lists->stream == stream) blocks = drain(*lists, blocks);
  if (stream == nullptr) return blocks;
  last_ = nullptr;
  std::erase_if(lists_, [stream](const auto& lists) { return lists->stream == stream; });
  return blocks;
}

void PoolThreadCache::end() noexcept {
  const std::lock_guard lock(lock_);
  PoolBlock* blocks = nullptr;
  for (const auto& lists : lists_) blocks = drain(*lists, blocks);
  if (sink_ != nullptr && blocks != nullptr) sink_->take_back(blocks);
  ended_.store(true);
}

void PoolThreadCache::detach() noexcept {
  const std::lock_guard lock(lock_);
  sink_ = nullptr;
  last_ = nullptr;
  lists_.clear();
  ended_.store(true);
}

PoolCaches::PoolCaches(PoolCacheSink& sink) : sink_(sink), id_(++g_last_pool_id) {}

PoolCaches::~PoolCaches() {
  const std::lock_guard lock(mutex_);
  for (const auto& cache : caches_) cache->detach();
}

PoolThreadCache* PoolCaches::mine() noexcept {
  if (t_memo.pool_id == id_) [[likely]]
    return t_memo.cache;
  if (t_ending) return nullptr;
  PoolThreadCache* cache = find_or_make();
  if (cache != nullptr) t_memo = {id_, cache};
  return cache;
}

PoolThreadCache* PoolCaches::find_or_make() noexcept {
  try {
    auto& own = thread_caches().all;
    for (const auto& cache : own)
      if (cache->pool_id() == id_) return cache.get();
    // Pools that were destroyed.
    std::erase_if(own, [](const auto& cache) { return cache->ended(); });
    auto cache = std::make_shared<PoolThreadCache>(sink_, id_);
    own.reserve(own.size() + 1);
    const std::lock_guard lock(mutex_);
    std::erase_if(caches_, [this](const auto& other) {  // threads that have ended
      if (!other->ended()) return false;
      const auto& counters = other->counters();
      gone_.used_bytes += counters.used_bytes.load();
      gone_.num_blocks += counters.num_blocks.load();
      gone_.num_allocations += counters.num_allocations.load();
      return true;
    });
    caches_.push_back(cache);
    own.push_back(cache);
    return cache.get();
  } catch (...) {  // no host memory: work without a cache
    return nullptr;
  }
}

PoolBlock* PoolCaches::empty(const PoolStream* stream) noexcept {
  const std::lock_guard lock(mutex_);
  PoolBlock* blocks = nullptr;
  for (const auto& cache : caches_) {
    PoolBlock* more = cache->empty(stream);
    while (more != nullptr) {
      PoolBlock* block = std::exchange(more, more->next);
      block->next = std::exchange(blocks, block);
    }
  }
  return blocks;
}

PoolCaches::Sums PoolCaches::sums() {
  const std::lock_guard lock(mutex_);
  Sums sums = gone_;
  sums.peak_bytes = gone_.used_bytes;
  for (const auto& cache : caches_) {
    const auto& counters = cache->counters();
    const bool ended = cache->ended();
    const std::int64_t used = counters.used_bytes.load(std::memory_order_relaxed);
    sums.used_bytes += used;
    sums.peak_bytes += ended ? used : counters.peak_bytes.load(std::memory_order_relaxed);
    sums.num_blocks += counters.num_blocks.load(std::memory_order_relaxed);
    sums.num_allocations += counters.num_allocations.load(std::memory_order_relaxed);
  }
  return sums;
}

PoolCaches::Sums PoolCaches::sample() {
  const Sums result = sums();
  if (PoolThreadCache* cache = mine()) {
    auto& counters = cache->counters();
    counters.peak_bytes.store(counters.used_bytes.load());
  }
  return result;
}

}  // namespace gpk::runtime
