// Whose allocations count against which limit: an account for a tenant, a model or a partition.
//
//   auto tenant = MemoryAccount::open(device, "tenant a", limit_bytes);
//   const AccountScope scope(tenant);  // allocations of this thread on that device pay into it
//
// An allocation that would pass the limit is refused with OutOfMemory, which names the account, the
// bytes asked for, its use and its limit. Nobody else notices.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "core/device.h"
#include "runtime/pool/pool_account.h"

namespace gpk::runtime {
class Pool;
struct PoolArena;
struct PoolPlace;
}  // namespace gpk::runtime

namespace gpk::device {

// Lives as long as somebody holds it: callers, threads that allocate on it, and every buffer that
// was charged to it. Thread safe.
class MemoryAccount {
 public:
  // The account of that name on the device, made where there is none. `limit_bytes` 0: none; left
  // out: as it is. The class, which says whose evictable memory leaves first, is that of the first
  // call. Throws InvalidArgument for an empty name.
  static std::shared_ptr<MemoryAccount> open(
      Device device, const std::string& name, std::optional<std::size_t> limit_bytes,
      runtime::PoolClass evict_class = runtime::PoolClass::kBurstable);
  // A reservation of `bytes` within `parent`: allocations that pay into it use the reserved bytes
  // first. nullptr where the parent's limit does not allow it.
  static std::shared_ptr<MemoryAccount> reserve(std::shared_ptr<MemoryAccount> parent,
                                                std::size_t bytes);
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] const std::string& name() const noexcept { return account_->name(); }
  [[nodiscard]] runtime::PoolAccount* account() const noexcept { return account_; }
  [[nodiscard]] runtime::PoolAccountStats stats() const { return account_->stats(); }
  // True for `other` itself and for its reservations.
  [[nodiscard]] bool is_within(const std::shared_ptr<MemoryAccount>& other) const noexcept {
    return other.get() == this || (parent_ != nullptr && parent_ == other);
  }
  // Gives back what was reserved and is not used; buffers stay charged to the parent.
  void end_reservation() noexcept { account_->end_reservation(); }
  // Below what is used: refuses more, takes nothing away.
  void set_limit(std::size_t limit_bytes) noexcept { account_->set_limit(limit_bytes); }

 private:
  MemoryAccount(Device device, runtime::Pool& pool, runtime::PoolAccount* account,
                std::shared_ptr<MemoryAccount> parent = nullptr)
      : device_(device), pool_(pool), account_(account), parent_(std::move(parent)) {}

  Device device_;
  runtime::Pool& pool_;
  runtime::PoolAccount* account_;
  std::shared_ptr<MemoryAccount> parent_;  // of a reservation
};

// The account that allocations of the calling thread on `device` pay into; nullptr: none.
std::shared_ptr<MemoryAccount> current_account(Device device);
// Sets it (nullptr: none) and returns the one it replaces.
std::shared_ptr<MemoryAccount> exchange_current_account(Device device,
                                                        std::shared_ptr<MemoryAccount> account);
// The same for the arena (of a reservation) that allocations of the thread come from first.
runtime::PoolArena* exchange_current_arena(Device device, runtime::PoolArena* arena);

// Makes an account current for a scope, or none: for what outlives the caller's work.
class AccountScope {
 public:
  explicit AccountScope(Device device, std::shared_ptr<MemoryAccount> account = nullptr)
      : device_(device), previous_(exchange_current_account(device, std::move(account))) {}
  explicit AccountScope(const std::shared_ptr<MemoryAccount>& account)
      : AccountScope(account->device(), account) {}
  ~AccountScope() { exchange_current_account(device_, std::move(previous_)); }
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  Device device_;
  std::shared_ptr<MemoryAccount> previous_;
};

namespace detail {

struct ThreadPlaces;
// nullptr in threads that never set an account or an arena: one load on every allocation.
extern thread_local constinit ThreadPlaces* t_places;

}  // namespace detail

// For Buffer: what the calling thread has set for `device`; the account is kept by the result.
inline bool has_thread_places() noexcept { return detail::t_places != nullptr; }
std::shared_ptr<MemoryAccount> apply_thread_place(Device device, runtime::PoolPlace& place);

}  // namespace gpk::device
