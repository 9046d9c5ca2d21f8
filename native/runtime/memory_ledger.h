// The scheduler's source of memory: reservations by account, optionally backed by a pool.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/memory_listener.h"

namespace gpk::runtime {

enum class ReserveResult {
  kGranted,
  kAccountFull,  // the account's own limit; other accounts may still be served
  kDeviceFull,   // the device-wide limit
};

// A scheduler calls it with its lock held: an implementation may lock, but must never call the
// scheduler, nor wait for a thread that does. Listeners are notified when memory becomes free other
// than by that scheduler's own release.
class MemoryLedger {
 public:
  virtual ~MemoryLedger() = default;
  // The account's limit is checked first. An Error of kMemory counts as kDeviceFull; any other
  // exception fails the task.
  virtual ReserveResult reserve(std::size_t bytes, std::string_view account) = 0;
  // Exactly the bytes of an earlier grant.
  virtual void release(std::size_t bytes, std::string_view account) noexcept = 0;
  // Same for a grant made just now and not used: nothing became free, so nobody is notified.
  virtual void revert(std::size_t bytes, std::string_view account) noexcept {
    release(bytes, account);
  }
  // The capacity shared by all accounts.
  [[nodiscard]] virtual std::size_t device_bytes() const noexcept = 0;
  // The most that could ever be granted to the account, and what could be granted now.
  [[nodiscard]] virtual std::size_t capacity_bytes(std::string_view account) const noexcept = 0;
  [[nodiscard]] virtual std::size_t available_bytes(std::string_view account) const noexcept = 0;

  // Every scheduler on this ledger registers itself for its lifetime.
  virtual void add_listener(MemoryListener&) {}
  virtual void remove_listener(MemoryListener&) noexcept {}
  // How often to poll while tasks wait, for memory that becomes free without notification.
  static constexpr std::chrono::nanoseconds kNever = std::chrono::nanoseconds::max();
  [[nodiscard]] virtual std::chrono::nanoseconds recheck_after() const noexcept { return kNever; }
};

// A total and, optionally, a limit per account. Thread safe.
class LimitLedger final : public MemoryLedger {
 public:
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

  explicit LimitLedger(std::size_t total_bytes = kUnlimited) : total_bytes_(total_bytes) {}

  // May be below what the account holds: it gets nothing more until it has shrunk.
  void set_account_limit(std::string_view account, std::size_t bytes);
  [[nodiscard]] std::size_t reserved_bytes() const;
  [[nodiscard]] std::size_t reserved_bytes(std::string_view account) const;

  ReserveResult reserve(std::size_t bytes, std::string_view account) override;
  void release(std::size_t bytes, std::string_view account) noexcept override;
  void revert(std::size_t bytes, std::string_view account) noexcept override;
  [[nodiscard]] std::size_t device_bytes() const noexcept override { return total_bytes_; }
  [[nodiscard]] std::size_t capacity_bytes(std::string_view account) const noexcept override;
  [[nodiscard]] std::size_t available_bytes(std::string_view account) const noexcept override;
  void add_listener(MemoryListener& listener) override { listeners_.add(listener); }
  void remove_listener(MemoryListener& listener) noexcept override { listeners_.remove(listener); }

 private:
  struct Account {
    std::size_t limit_bytes = kUnlimited;
    std::size_t reserved_bytes = 0;
  };

  const std::size_t total_bytes_;
  // Accounts with neither a limit nor a grant that are kept for reuse.
  static constexpr std::size_t kMaxIdleAccounts = 8;

  mutable std::mutex mutex_;
  std::map<std::string, Account, std::less<>> accounts_;
  std::size_t reserved_bytes_ = 0;
  MemoryListeners listeners_;
};

}  // namespace gpk::runtime
