// How the pool makes room: the ladder of measures, the quota, and arenas.
#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "base/text.h"
#include "runtime/pool/pool.h"

namespace gpk::runtime {
namespace {

constexpr int kMaxRepeats = 64;
constexpr std::chrono::microseconds kMoment{50};
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

std::size_t missing(std::size_t needed, std::size_t available) noexcept {
  return needed > available ? needed - available : 0;
}

}  // namespace

enum class Pool::Step : std::uint8_t {
  kPoll,       // frees that other streams have completed
  kForeign,    // from here on holes of other streams too
  kTakeIdle,   // remap physical memory of idle holes
  kReclaim,    // same of all holes, after waiting for the work on them
  kFlush,      // small blocks cached by threads
  kEvictIdle,  // blocks that the device does not use now
  kDrain,      // wait for frees
  kOthers,     // wait for other waiting threads
  kEvict,      // any evictable block, after the work on it
  kSettle,     // wait for all streams: all holes merge
  kCollect,    // garbage collection
  kPause,      // briefly, for marks that were just recorded
};

bool Pool::relieve(Lock& lock, Need& need) {
  using enum Step;
  constexpr std::array kLadder = {kPoll,  kForeign, kReclaim, kFlush,   kReclaim, kEvictIdle,
                                  kDrain, kFlush,   kReclaim, kEvict,   kSettle,  kReclaim,
                                  kEvict, kOthers,  kReclaim, kEvict,   kCollect, kPoll,
                                  kFlush, kDrain,   kSettle,  kReclaim, kEvict};
  return climb(lock, need, kLadder);
}

bool Pool::climb(Lock& lock, Need& need, std::span<const Step> ladder) {
  using enum Step;
  space_.ask_again();
  if (need.attempt(need.foreign)) return true;
  for (const Step step : ladder) {
    if (step == kCollect && !options_.collect) break;
    // Measures for a shortage may change what is short, and other threads may win the race: repeat
    // these as long as they make progress.
    const bool again = step == kReclaim || step == kTakeIdle || step == kEvict ||
                       step == kEvictIdle || step == kOthers;
    for (int i = 0; i < (again ? kMaxRepeats : 1) && run_step(lock, need, step); ++i)
      if (need.attempt(need.foreign)) return true;
  }
  return false;
}

bool Pool::run_step(Lock& lock, Need& need, Step step) {
  switch (step) {
    case Step::kPoll: return poll_pending();
    case Step::kForeign: return std::exchange(need.foreign, true) == false;
    case Step::kTakeIdle: return heap_.reclaim(common_, need.shortage()) > 0;
    case Step::kReclaim: return reclaim(lock, need);
    case Step::kFlush: return flush_caches(lock);
    case Step::kDrain: return drain_pending(lock);
    case Step::kOthers: return await_others(lock);
    case Step::kSettle: return settle_all(lock, common_);
    case Step::kEvictIdle:
    case Step::kEvict: {
      const bool idle_only = step == Step::kEvictIdle;
      const std::size_t gained =
          evictor_.evict(need.shortage(), need.max_class, idle_only, waiter(lock));
      count_evicted();
      return gained > 0;
    }
    case Step::kCollect:
      lock.unlock();
      options_.collect();
      lock.lock();
      return true;
    case Step::kPause:
      lock.unlock();
      std::this_thread::sleep_for(kMoment);
      lock.lock();
      return true;
  }
  return false;
}

PoolWait Pool::waiter(Lock& lock) {
  return [this, &lock](PoolDevice::Event event) {
    ++num_waiting_;
    lock.unlock();
    const auto back = [&] {
      lock.lock();
      --num_waiting_;
      ++num_waits_;
      changed_.notify_all();
    };
    try {
      device_.wait(event);
    } catch (...) {
      back();
      throw;
    }
    back();
  };
}

bool Pool::await_others(Lock& lock) {
  if (num_waiting_ == 0) return false;
  changed_.wait(lock, [this, before = num_waits_] { return num_waits_ != before; });
  return true;
}

bool Pool::reclaim(Lock& lock, const Need& need) {
  const std::size_t num = need.shortage();
  if (num == 0) return false;
  std::size_t gained = heap_.reclaim(common_, num);
  // The request's own stream first: waiting for it delays nobody else.
  if (gained < num && heap_.num_reclaimable(common_, need.stream) > 0) {
    heap_.settle(need.stream, waiter(lock));
    gained += heap_.reclaim(common_, num - gained);
  }
  while (gained < num) {
    const std::vector<PoolStream*> streams = heap_.streams_of(common_);
    const auto found = std::find_if(streams.begin(), streams.end(), [&](const PoolStream* stream) {
      return heap_.num_reclaimable(common_, stream) > 0;
    });
    if (found == streams.end()) break;
    heap_.settle(*found, waiter(lock));
    const std::size_t more = heap_.reclaim(common_, num - gained);
    if (more == 0) break;
    gained += more;
  }
  return gained > 0;
}

bool Pool::flush_caches(Lock& lock) {
  lock.unlock();
  PoolBlock* blocks = caches_.empty(nullptr);
  lock.lock();
  put_small(blocks);
  bool any = false;
  const auto give_back = [&](PoolRange* range) {
    heap_.give_back(range);
    any = true;
  };
  spans_.release_free(common_, give_back);
  return any || blocks != nullptr;
}

bool Pool::settle_all(Lock& lock, const PoolArena& arena) {
  std::uint64_t last = 0;
  for (;;) {  // streams may come and go during the wait
    const std::vector<PoolStream*> streams = heap_.streams_of(arena);
    const auto next =
        std::find_if(streams.begin(), streams.end(),
                     [last](const PoolStream* stream) { return stream->index > last; });
    if (next == streams.end()) return last != 0;
    last = (*next)->index;
    heap_.settle(*next, waiter(lock));
  }
}

bool Pool::poll_pending() {
  num_frees_since_poll_ = 0;
  heap_.release_dead();
  evictor_.poll();
  return pending_.poll([this](const PoolPending::Item& item) { finish_pending(item); });
}

bool Pool::drain_pending(Lock& lock) {
  return pending_.drain(waiter(lock),
                        [this](const PoolPending::Item& item) { finish_pending(item); });
}

void Pool::finish_pending(const PoolPending::Item& item) noexcept {
  if (item.block != nullptr)
    release_block(item.block);
  else
    dissolve(item.arena);
  listeners_.notify();
}

PoolRange* Pool::find_range(Lock& lock, std::size_t bytes, Stream stream, const PoolPlace& place,
                            std::size_t alignment_bytes, std::size_t asked_bytes) {
  PoolArena* arena = place.arena == nullptr ? &common_ : check_arena(place.arena, "allocate");
  PoolStream* home = streams_.get(stream);
  const PoolStreamScope scope(streams_, home);
  PoolHeap::Request request{arena, home, bytes, alignment_bytes};
  if (arena->kind == PoolArena::Kind::kReserved) {
    // So that a block takes no more chunks than its size fills.
    if (space_.can_map() && bytes > options_.small_max_bytes)
      request.alignment_bytes = space_.chunk_bytes();
    if (PoolRange* range = fit_reserved(lock, request)) return range;
    request.arena = &common_;
    request.alignment_bytes = alignment_bytes;
  }
  if (PoolRange* range = heap_.fit(request)) return range;
  const std::size_t num_created = space_.num_created();
  PoolRange* found = nullptr;
  Need need;
  need.stream = home;
  need.max_class = place.account == nullptr ? PoolClass::kBurstable : place.account->evict_class();
  need.shortage = [&] { return heap_.shortage(request); };
  need.attempt = [&](bool foreign) {
    found = heap_.fit(request);
    if (found == nullptr) found = heap_.grow(request);
    if (found == nullptr && foreign) found = heap_.fit_foreign(request);
    return found != nullptr;
  };
  const bool possible = space_.quota_bytes() == 0 || bytes <= space_.quota_bytes();
  const std::size_t num_spare = space_.num_spare();
  if (!possible || !relieve(lock, need)) {
    space_.destroy_spare(num_spare);  // release to the device what was gathered in vain
    throw_out_of_memory(lock, "Pool::allocate", asked_bytes, place.account, false);
  }
  if (space_.num_created() != num_created) ++num_fresh_;
  return found;
}

// Within the arena's own chunks, consolidating free ones where necessary.
PoolRange* Pool::fit_reserved(Lock& lock, const PoolHeap::Request& request) {
  PoolArena& arena = *request.arena;
  top_up(arena);
  if (PoolRange* range = heap_.fit(request)) return range;
  for (const bool wait : {false, true}) {
    wait ? drain_pending(lock) : poll_pending();
    if (PoolRange* range = heap_.fit(request)) return range;
    if (PoolRange* range = heap_.fit_foreign(request)) return range;
    spans_.release_free(arena, [this](PoolRange* range) { heap_.give_back(range); });
    settle_all(lock, arena);
    if (PoolRange* range = heap_.fit(request)) return range;
    const std::size_t num = space_.num_chunks(request.bytes);
    if (!space_.can_map() || heap_.num_reclaimable(arena, nullptr) < num) continue;
    heap_.reclaim(arena, num);
    PoolRange* range = nullptr;
    try {
      range = heap_.grow(request);
    } catch (...) {
      top_up(arena);
      throw;
    }
    top_up(arena);  // a suitable hole may have saved some chunks
    if (range != nullptr) return range;
  }
  return nullptr;
}

// Chunks that could not be mapped back stay missing until the next call.
void Pool::top_up(PoolArena& arena) noexcept {
  if (arena.reserved_bytes >= arena.guaranteed_bytes) return;
  try {
    heap_.supply(arena, space_.num_chunks(arena.guaranteed_bytes - arena.reserved_bytes));
  } catch (...) {
  }
}

std::size_t Pool::trim() {
  Lock lock(mutex_);
  poll_pending();
  drain_pending(lock);
  flush_caches(lock);
  const std::size_t before = space_.reserved_bytes();
  settle_all(lock, common_);
  heap_.reclaim(common_, kAll);
  space_.destroy_spare(0);
  evictor_.trim_host();
  return before - space_.reserved_bytes();
}

void Pool::set_quota(std::size_t quota_bytes) {
  if (quota_bytes != 0 && quota_bytes < space_.chunk_bytes())
    throw Error(Error::Kind::kValue, "Pool: set_quota of " + bytes_text(quota_bytes) +
                                         ", expected 0 or at least a chunk, " +
                                         bytes_text(space_.chunk_bytes()));
  Lock lock(mutex_);
  const auto excess = [&] {
    const std::size_t bytes = quota_bytes == 0 ? 0 : missing(space_.reserved_bytes(), quota_bytes);
    return space_.num_chunks(bytes);
  };
  Need need;
  need.attempt = [&](bool) {
    space_.destroy_spare(missing(space_.num_spare(), excess()));
    return space_.set_quota(quota_bytes);
  };
  need.shortage = excess;
  if (!relieve(lock, need))
    throw_out_of_memory(lock, "Pool::set_quota", quota_bytes, nullptr, false);
  listeners_.notify();
}

PoolArena* Pool::check_arena(PoolArena* arena, const char* what) const {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end() || found->second->closing)
    throw Error(Error::Kind::kValue, std::string("Pool: ") + what +
                                         " with an arena that is not open, expected one that "
                                         "reserve() or open_private() returned");
  return found->second.get();
}

PoolArena* Pool::reserve(std::size_t bytes) {
  Lock lock(mutex_);
  PoolArena* arena = reserve_with(lock, bytes, true);
  if (arena == nullptr) throw_out_of_memory(lock, "Pool::reserve", bytes, nullptr, false);
  return arena;
}

PoolArena* Pool::try_reserve(std::size_t bytes) {
  Lock lock(mutex_);
  return reserve_with(lock, bytes, false);
}

PoolArena* Pool::reserve_with(Lock& lock, std::size_t bytes, bool patient) {
  using enum Step;
  constexpr std::array kImpatient = {kPoll,      kTakeIdle, kFlush,    kTakeIdle,
                                     kEvictIdle, kPause,    kEvictIdle};
  if (bytes == 0) throw Error(Error::Kind::kValue, "Pool: reserve of bytes 0, expected at least 1");
  auto owner = std::make_unique<PoolArena>(++last_arena_id_, PoolArena::Kind::kReserved);
  PoolArena* arena = owner.get();
  arenas_.emplace(arena, std::move(owner));
  std::size_t num = bytes > kAll / 2 ? kAll / space_.chunk_bytes() : space_.num_chunks(bytes);
  Need need;
  need.attempt = [&](bool) {
    num -= heap_.donate(common_, *arena, num);
    if (num > 0 && heap_.supply(*arena, num)) num = 0;
    return num == 0;
  };
  need.shortage = [&] { return missing(num, space_.num_available()); };
  const std::size_t quota = space_.quota_bytes();
  bool done = false;
  try {
    done = (quota == 0 || num <= quota / space_.chunk_bytes()) &&
           (patient ? relieve(lock, need) : climb(lock, need, kImpatient));
  } catch (...) {
    dissolve(arena);
    throw;
  }
  if (done) {
    arena->guaranteed_bytes = arena->reserved_bytes;
    return arena;
  }
  dissolve(arena);
  return nullptr;
}

PoolArena* Pool::open_private() {
  const Lock lock(mutex_);
  auto owner = std::make_unique<PoolArena>(++last_arena_id_, PoolArena::Kind::kPrivate);
  PoolArena* arena = owner.get();
  arenas_.emplace(arena, std::move(owner));
  return arena;
}

void Pool::close(PoolArena* arena, std::span<const Stream> ids) {
  const Lock lock(mutex_);
  check_arena(arena, "close");
  std::vector<PoolStream*> streams;
  for (const Stream id : ids)
    if (PoolStream* stream = streams_.get(id);
        std::find(streams.begin(), streams.end(), stream) == streams.end())
      streams.push_back(stream);
  arena->closing = true;
  if (!streams.empty() && pending_.add({.arena = arena}, streams)) return;
  dissolve(arena);
  listeners_.notify();
}

void Pool::dissolve(PoolArena* arena) noexcept {
  heap_.dissolve(*arena, common_);
  spans_.dissolve(*arena, common_);
  arenas_.erase(arena);
}

PoolArenaStats Pool::arena_stats(PoolArena* arena) const {
  const Lock lock(mutex_);
  check_arena(arena, "arena_stats");
  return {.reserved_bytes = arena->reserved_bytes,
          .free_bytes = arena->hole_bytes,
          .largest_free_bytes = heap_.largest_hole(*arena)};
}

PoolAccount* Pool::open_account(std::size_t limit_bytes, PoolClass evict_class, std::string name) {
  const Lock lock(mutex_);
  accounts_.push_back(std::make_unique<PoolAccount>(last_account_id_ + 1, limit_bytes, evict_class,
                                                    std::move(name)));
  ++last_account_id_;
  return accounts_.back().get();
}

PoolAccount* Pool::open_reservation(PoolAccount& parent, std::size_t bytes) {
  const Lock lock(mutex_);
  accounts_.reserve(accounts_.size() + 1);  // nothing fails once the parent is charged
  auto account = std::make_unique<PoolAccount>(last_account_id_ + 1, parent, bytes);
  if (!parent.charge(bytes)) return nullptr;
  accounts_.push_back(std::move(account));
  ++last_account_id_;
  return accounts_.back().get();
}

void Pool::close_account(PoolAccount* account) {
  const Lock lock(mutex_);
  const auto found = std::find_if(accounts_.begin(), accounts_.end(),
                                  [&](const auto& other) { return other.get() == account; });
  if (found == accounts_.end())
    throw Error(Error::Kind::kValue,
                "Pool: close_account of an account that is not open, expected one that "
                "open_account() returned");
  if (const std::size_t used = account->stats().used_bytes; used != 0)
    throw Error(Error::Kind::kState, "Pool: close_account of account " +
                                         std::to_string(account->id()) + " that holds " +
                                         bytes_text(used) + ", expected none");
  account->end_reservation();
  accounts_.erase(found);
}

}  // namespace gpk::runtime
