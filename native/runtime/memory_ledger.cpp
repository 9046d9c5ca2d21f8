#include "runtime/memory_ledger.h"

#include <algorithm>

namespace gpk::runtime {

void LimitLedger::set_account_limit(std::string_view account, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    accounts_[std::string(account)].limit_bytes = bytes;
  }
  listeners_.notify();
}

std::size_t LimitLedger::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

std::size_t LimitLedger::reserved_bytes(std::string_view account) const {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(account);
  return found == accounts_.end() ? 0 : found->second.reserved_bytes;
}

ReserveResult LimitLedger::reserve(std::size_t bytes, std::string_view account) {
  const std::lock_guard lock(mutex_);
  auto found = accounts_.find(account);
  if (found != accounts_.end()) {
    const Account& held = found->second;
    if (held.reserved_bytes > held.limit_bytes || bytes > held.limit_bytes - held.reserved_bytes)
      return ReserveResult::kAccountFull;
  }
  if (bytes > total_bytes_ - reserved_bytes_) return ReserveResult::kDeviceFull;
  if (found == accounts_.end()) found = accounts_.emplace(account, Account()).first;
  found->second.reserved_bytes += bytes;
  reserved_bytes_ += bytes;
  return ReserveResult::kGranted;
}

void LimitLedger::revert(std::size_t bytes, std::string_view account) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(account);
  if (found == accounts_.end()) return;
  found->second.reserved_bytes -= bytes;
  reserved_bytes_ -= bytes;
  if (found->second.reserved_bytes == 0 && found->second.limit_bytes == kUnlimited &&
      accounts_.size() > kMaxIdleAccounts)
    accounts_.erase(found);
}

void LimitLedger::release(std::size_t bytes, std::string_view account) noexcept {
  revert(bytes, account);
  if (listeners_.count() > 1) listeners_.notify();  // the releasing scheduler retries on its own
}

std::size_t LimitLedger::capacity_bytes(std::string_view account) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(account);
  if (found == accounts_.end()) return total_bytes_;
  return std::min(total_bytes_, found->second.limit_bytes);
}

std::size_t LimitLedger::available_bytes(std::string_view account) const noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t left = total_bytes_ - reserved_bytes_;
  const auto found = accounts_.find(account);
  if (found == accounts_.end()) return left;
  const Account& held = found->second;
  return std::min(left, held.limit_bytes - std::min(held.limit_bytes, held.reserved_bytes));
}

}  // namespace gpk::runtime
