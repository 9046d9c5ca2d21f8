#include "core/pool_ledger.h"

#include <algorithm>

#include "core/device_pool.h"
#include "core/memory_account.h"

namespace gpk {

using runtime::ReserveResult;

namespace {

constexpr std::chrono::milliseconds kDevicePause{20};
// Memory of other processes, and small blocks that threads cache.
constexpr std::chrono::milliseconds kUnseenPause{1000};

}  // namespace

PoolLedger::PoolLedger(Device device, std::shared_ptr<runtime::MemoryLedger> limits)
    : device_(device),
      pool_(device_pool(device)),
      total_bytes_(memory_info(device).total_bytes),
      limits_(std::move(limits)) {}

PoolLedger::PoolLedger(runtime::Pool& pool, std::size_t device_bytes,
                       std::shared_ptr<runtime::MemoryLedger> limits)
    : device_{DeviceKind::kCpu, 0},
      pool_(pool),
      total_bytes_(device_bytes),
      limits_(std::move(limits)) {}

PoolLedger::~PoolLedger() {
  while (!held_.empty()) {
    const Key key = held_.begin()->first;
    release(key.second, key.first);
  }
}

ReserveResult PoolLedger::reserve(std::size_t bytes, std::string_view account) {
  if (limits_) {
    const ReserveResult result = limits_->reserve(bytes, account);
    if (result != ReserveResult::kGranted) return result;
  }
  const std::lock_guard lock(mutex_);
  std::multimap<Key, Held>::iterator place = held_.end();
  try {
    place = held_.emplace(Key(account, bytes), Held());
    if (bytes == 0) return ReserveResult::kGranted;
    place->second.arena = pool_.try_reserve(bytes);
    if (place->second.arena != nullptr) return ReserveResult::kGranted;
    held_.erase(place);
  } catch (...) {
    if (place != held_.end()) held_.erase(place);
    if (limits_) limits_->revert(bytes, account);
    throw;
  }
  if (limits_) limits_->revert(bytes, account);
  return ReserveResult::kDeviceFull;
}

void PoolLedger::release(std::size_t bytes, std::string_view account) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = held_.equal_range(Key(account, bytes));
    if (first == last) return;
    // The task that ends is one that has run, unless none of its kind has.
    const auto rank = [](const Held& held) {
      return held.state == Held::State::kUsed ? 0 : held.state == Held::State::kUnused ? 1 : 2;
    };
    const auto ended = std::min_element(
        first, last, [&](const auto& a, const auto& b) { return rank(a.second) < rank(b.second); });
    runtime::PoolArena* arena = ended->second.arena;
    held_.erase(ended);
    if (arena != nullptr) pool_.close(arena);
  } catch (...) {  // a lost device has taken its memory along
  }
  if (limits_) limits_->release(bytes, account);
}

std::size_t PoolLedger::device_bytes() const noexcept {
  const std::size_t quota = pool_.stats().quota_bytes;
  return quota == 0 ? total_bytes_ : std::min(quota, total_bytes_);
}

std::size_t PoolLedger::capacity_bytes(std::string_view account) const noexcept {
  const std::size_t all = device_bytes();
  return limits_ ? std::min(all, limits_->capacity_bytes(account)) : all;
}

std::size_t PoolLedger::available_bytes(std::string_view account) const noexcept {
  const runtime::PoolStats stats = pool_.stats();
  const std::size_t all = device_bytes();
  const std::size_t taken = std::min(all, stats.used_bytes + stats.set_aside_bytes);
  return limits_ ? std::min(all - taken, limits_->available_bytes(account)) : all - taken;
}

void PoolLedger::add_listener(runtime::MemoryListener& listener) {
  if (limits_) limits_->add_listener(listener);
  pool_.listeners().add(listener);
}

void PoolLedger::remove_listener(runtime::MemoryListener& listener) noexcept {
  if (limits_) limits_->remove_listener(listener);
  pool_.listeners().remove(listener);
}

std::chrono::nanoseconds PoolLedger::recheck_after() const noexcept {
  return pool_.awaits_device() ? kDevicePause : kUnseenPause;
}

runtime::PoolArena* PoolLedger::enter(std::size_t bytes, std::string_view account) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = held_.equal_range(Key(account, bytes));
  for (auto place = first; place != last; ++place) {
    if (place->second.arena == nullptr || place->second.state != Held::State::kUnused) continue;
    place->second.state = Held::State::kInScope;
    return place->second.arena;
  }
  return nullptr;
}

void PoolLedger::leave(const runtime::PoolArena* arena) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [key, held] : held_)
    if (held.arena == arena) held.state = Held::State::kUsed;
}

PoolLedger::Scope::Scope(PoolLedger& ledger, std::size_t bytes, std::string_view account)
    : ledger_(ledger), arena_(ledger.enter(bytes, account)) {
  if (arena_ == nullptr) return;
  try {
    previous_ = exchange_current_arena(ledger_.device_, arena_);
  } catch (...) {
    ledger_.leave(arena_);
    throw;
  }
}

PoolLedger::Scope::~Scope() {
  if (arena_ == nullptr) return;
  exchange_current_arena(ledger_.device_, previous_);
  ledger_.leave(arena_);
}

}  // namespace gpk
