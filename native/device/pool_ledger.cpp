#include "device/pool_ledger.h"

#include <algorithm>

#include "device/device_pool.h"
#include "device/device_sharing.h"
#include "device/memory_account.h"

namespace gpk::device {

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

std::shared_ptr<MemoryAccount> PoolLedger::partition_account(std::string_view account) const {
  if (account.empty()) return nullptr;
  const auto sharing = DeviceSharing::find(device_);
  return sharing ? sharing->account_of(account) : nullptr;
}

ReserveResult PoolLedger::reserve(std::size_t bytes, std::string_view account) {
  if (limits_) {
    const ReserveResult result = limits_->reserve(bytes, account);
    if (result != ReserveResult::kGranted) return result;
  }
  ReserveResult result = ReserveResult::kDeviceFull;
  try {
    result = hold(bytes, account);
  } catch (...) {
    if (limits_) limits_->revert(bytes, account);
    throw;
  }
  if (result != ReserveResult::kGranted && limits_) limits_->revert(bytes, account);
  return result;
}

ReserveResult PoolLedger::hold(std::size_t bytes, std::string_view account) {
  Held held;
  if (bytes > 0) {
    if (auto partition = partition_account(account)) {
      held.account = MemoryAccount::reserve(std::move(partition), bytes);
      if (held.account == nullptr) return ReserveResult::kAccountFull;
    }
    held.arena = pool_.try_reserve(bytes);
    if (held.arena == nullptr) return ReserveResult::kDeviceFull;
  }
  runtime::PoolArena* const arena = held.arena;
  try {
    const std::lock_guard lock(mutex_);
    held_.emplace(Key(account, bytes), std::move(held));
  } catch (...) {
    if (arena != nullptr) pool_.close(arena);
    throw;
  }
  return ReserveResult::kGranted;
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
    const Held given_back = std::move(ended->second);
    held_.erase(ended);
    if (given_back.account != nullptr) given_back.account->end_reservation();
    if (given_back.arena != nullptr) pool_.close(given_back.arena);
  } catch (...) {  // a lost device has taken its memory along
  }
  if (limits_) limits_->release(bytes, account);
}

std::size_t PoolLedger::device_bytes() const noexcept {
  const std::size_t quota = pool_.stats().quota_bytes;
  return quota == 0 ? total_bytes_ : std::min(quota, total_bytes_);
}

std::size_t PoolLedger::capacity_bytes(std::string_view account) const noexcept {
  std::size_t most = device_bytes();
  if (limits_) most = std::min(most, limits_->capacity_bytes(account));
  if (const auto partition = partition_account(account))
    if (const std::size_t limit = partition->stats().limit_bytes; limit != 0)
      most = std::min(most, limit);
  return most;
}

std::size_t PoolLedger::available_bytes(std::string_view account) const noexcept {
  const runtime::PoolStats stats = pool_.stats();
  const std::size_t all = device_bytes();
  std::size_t most = all - std::min(all, stats.used_bytes + stats.set_aside_bytes);
  if (limits_) most = std::min(most, limits_->available_bytes(account));
  if (const auto partition = partition_account(account)) {
    const runtime::PoolAccountStats own = partition->stats();
    if (own.limit_bytes != 0)
      most = std::min(most, own.limit_bytes - std::min(own.limit_bytes, own.used_bytes));
  }
  return most;
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

runtime::PoolArena* PoolLedger::enter(std::size_t bytes, std::string_view account,
                                      std::shared_ptr<MemoryAccount>& within) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = held_.equal_range(Key(account, bytes));
  for (auto place = first; place != last; ++place) {
    Held& held = place->second;
    if (held.arena == nullptr || held.state != Held::State::kUnused) continue;
    held.state = Held::State::kInScope;
    within = held.account;
    return held.arena;
  }
  return nullptr;
}

void PoolLedger::leave(const runtime::PoolArena* arena) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [key, held] : held_)
    if (held.arena == arena) held.state = Held::State::kUsed;
}

PoolLedger::Scope::Scope(PoolLedger& ledger, std::size_t bytes, std::string_view account)
    : ledger_(ledger), arena_(ledger.enter(bytes, account, account_)) {
  try {
    if (account_ != nullptr)
      previous_account_ = exchange_current_account(ledger_.device_, account_);
    previous_ = exchange_current_arena(ledger_.device_, arena_);
  } catch (...) {
    if (arena_ != nullptr) ledger_.leave(arena_);
    throw;
  }
}

PoolLedger::Scope::~Scope() {
  exchange_current_arena(ledger_.device_, previous_);
  if (account_ != nullptr) exchange_current_account(ledger_.device_, std::move(previous_account_));
  if (arena_ != nullptr) ledger_.leave(arena_);
}

}  // namespace gpk::device
