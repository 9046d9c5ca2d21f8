// Reservations of a scheduler, really held: room in a device's memory pool that only the tasks they
// were made for get.
//
//   PoolLedger ledger(device, limits);       // limits: a LimitLedger, say
//   Scheduler scheduler(..., ledger, ...);
//   // in the thread that runs a task:
//   const PoolLedger::Scope scope(ledger, task_bytes, task_account);
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/device.h"
#include "runtime/memory_ledger.h"
#include "runtime/pool/pool.h"

namespace gpk::device {

class MemoryAccount;

// Thread safe. reserve() waits for no work of the device and runs no collector, so that a scheduler
// may call it with its lock held; it evicts idle blocks. A reservation takes whole chunks of the
// pool (Pool::chunk_bytes()). An account that names an open partition of the device is that
// partition's: the reservation is one within its memory.
class PoolLedger final : public runtime::MemoryLedger {
 public:
  // `limits` says how much each account may reserve, and is told of every grant; nullptr: no limits
  // but the pool's.
  PoolLedger(Device device, std::shared_ptr<runtime::MemoryLedger> limits);
  // For a pool of one's own, which must outlive the ledger.
  PoolLedger(runtime::Pool& pool, std::size_t device_bytes,
             std::shared_ptr<runtime::MemoryLedger> limits);
  // Gives all reservations back.
  ~PoolLedger() override;
  PoolLedger(const PoolLedger&) = delete;
  PoolLedger& operator=(const PoolLedger&) = delete;

  runtime::ReserveResult reserve(std::size_t bytes, std::string_view account) override;
  // Blocks that were allocated in the reservation live on.
  void release(std::size_t bytes, std::string_view account) noexcept override;
  // The pool's quota, else the device's memory.
  [[nodiscard]] std::size_t device_bytes() const noexcept override;
  [[nodiscard]] std::size_t capacity_bytes(std::string_view account) const noexcept override;
  // What neither blocks nor reservations hold; eviction could give more.
  [[nodiscard]] std::size_t available_bytes(std::string_view account) const noexcept override;

  void add_listener(runtime::MemoryListener& listener) override;
  void remove_listener(runtime::MemoryListener& listener) noexcept override;
  // Often while work of the device decides, seldom for what the pool is not told.
  [[nodiscard]] std::chrono::nanoseconds recheck_after() const noexcept override;

  // While one lives, allocations of the thread come from a reservation of that size and account
  // which no other scope uses; what does not fit there comes from the common memory, and so does
  // all without such a reservation. It must end before the reservation is released.
  class Scope {
   public:
    Scope(PoolLedger& ledger, std::size_t bytes, std::string_view account);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    [[nodiscard]] bool holds() const noexcept { return arena_ != nullptr; }

   private:
    PoolLedger& ledger_;
    std::shared_ptr<MemoryAccount> account_;  // of the reservation, where it is in a partition
    runtime::PoolArena* arena_;
    runtime::PoolArena* previous_ = nullptr;
    std::shared_ptr<MemoryAccount> previous_account_;
  };

 private:
  using Key = std::pair<std::string, std::size_t>;  // account, bytes
  struct Held {
    runtime::PoolArena* arena = nullptr;     // nullptr: of 0 bytes
    std::shared_ptr<MemoryAccount> account;  // within the partition's; nullptr: in none
    enum class State : std::uint8_t { kUnused, kInScope, kUsed } state = State::kUnused;
  };
  runtime::ReserveResult hold(std::size_t bytes, std::string_view account);
  [[nodiscard]] std::shared_ptr<MemoryAccount> partition_account(std::string_view account) const;
  runtime::PoolArena* enter(std::size_t bytes, std::string_view account,
                            std::shared_ptr<MemoryAccount>& within);
  void leave(const runtime::PoolArena* arena) noexcept;

  const Device device_;
  runtime::Pool& pool_;
  const std::size_t total_bytes_;
  const std::shared_ptr<runtime::MemoryLedger> limits_;
  mutable std::mutex mutex_;
  std::multimap<Key, Held> held_;
};

}  // namespace gpk::device
