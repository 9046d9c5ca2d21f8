// Accounting: a byte count with its own limit, for a partition or a tenant.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/pool/pool_stats.h"

namespace gpk::runtime {

// In eviction order of their evictable blocks. Blocks of a class are evicted only for allocations
// of the same or a higher class.
enum class PoolClass : std::uint8_t { kBestEffort = 0, kBurstable = 1, kGuaranteed = 2 };

// Thread safe and exact: at no instant is more charged than the limit.
//
// An account may be a reservation within another one, its parent. `reserved_bytes` are charged to
// the parent while the reservation lasts, and use beyond them as it occurs: the parent is charged
// max(reserved, used), and `used` alone once the reservation has ended.
class PoolAccount {
 public:
  // `limit_bytes` 0: none.
  PoolAccount(std::uint64_t id, std::size_t limit_bytes, PoolClass evict_class,
              std::string name = {}) noexcept
      : id_(id), class_(evict_class), name_(std::move(name)), limit_bytes_(limit_bytes) {}
  // A reservation. The caller has charged `reserved_bytes` to `parent`, which outlives it.
  PoolAccount(std::uint64_t id, PoolAccount& parent, std::size_t reserved_bytes)
      : id_(id),
        class_(parent.class_),
        name_(parent.name_),
        limit_bytes_(0),
        parent_(&parent),
        reserved_bytes_(reserved_bytes) {}

  // False, with nothing charged, where the limit would be exceeded.
  [[nodiscard]] bool charge(std::size_t bytes) noexcept {
    return parent_ == nullptr ? charge_own(bytes) : charge_reserved(bytes);
  }
  void uncharge(std::size_t bytes) noexcept {
    if (parent_ == nullptr) {
      used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    } else {
      uncharge_reserved(bytes);
    }
  }
  void count_refusal() noexcept { payer().num_refused_.fetch_add(1, std::memory_order_relaxed); }
  // Releases what was reserved and is not used. Idempotent; no-op without a parent.
  void end_reservation() noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t used = used_bytes_.load(std::memory_order_relaxed);
    if (reserved_bytes_ > used) parent_->uncharge(reserved_bytes_ - used);
    reserved_bytes_ = 0;
  }

  // A limit below the current use refuses new charges and revokes nothing.
  void set_limit(std::size_t limit_bytes) noexcept {
    limit_bytes_.store(limit_bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }  // from 1
  [[nodiscard]] PoolClass evict_class() const noexcept { return class_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_reservation() const noexcept { return parent_ != nullptr; }
  // Whose limit counts: the parent of a reservation, else itself.
  [[nodiscard]] const PoolAccount& payer() const noexcept { return parent_ ? *parent_ : *this; }
  [[nodiscard]] PoolAccount& payer() noexcept { return parent_ ? *parent_ : *this; }
  [[nodiscard]] PoolAccountStats stats() const {
    return {.id = id_,
            .name = name_,
            .used_bytes = used_bytes_.load(std::memory_order_relaxed),
            .peak_bytes = peak_bytes_.load(std::memory_order_relaxed),
            .limit_bytes = limit_bytes_.load(std::memory_order_relaxed),
            .num_refused = num_refused_.load(std::memory_order_relaxed)};
  }

 private:
  bool charge_own(std::size_t bytes) noexcept {
    std::size_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      const std::size_t limit = limit_bytes_.load(std::memory_order_relaxed);
      if (limit != 0 && (bytes > limit || used > limit - bytes)) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    std::size_t peak = peak_bytes_.load(std::memory_order_relaxed);
    while (peak < used + bytes &&
           !peak_bytes_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
    }
    return true;
  }
  // The part of `used` charged to the parent beyond the reservation.
  [[nodiscard]] std::size_t excess(std::size_t used) const noexcept {
    return used > reserved_bytes_ ? used - reserved_bytes_ : 0;
  }
  bool charge_reserved(std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t used = used_bytes_.load(std::memory_order_relaxed);
    const std::size_t more = excess(used + bytes) - excess(used);
    if (more > 0 && !parent_->charge(more)) return false;
    return charge_own(bytes);  // no limit of its own
  }
  void uncharge_reserved(std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t used = used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    if (const std::size_t less = excess(used) - excess(used - bytes); less > 0)
      parent_->uncharge(less);
  }

  std::uint64_t id_;
  PoolClass class_;
  std::string name_;
  std::atomic<std::size_t> limit_bytes_;
  std::atomic<std::size_t> used_bytes_{0};
  std::atomic<std::size_t> peak_bytes_{0};
  std::atomic<std::size_t> num_refused_{0};
  PoolAccount* const parent_ = nullptr;
  std::mutex mutex_;  // of a reservation: over used_bytes_ and reserved_bytes_
  std::size_t reserved_bytes_ = 0;
};

}  // namespace gpk::runtime
