// Who pays for memory: a byte count with a limit of its own, for a partition or a tenant.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/pool/pool_stats.h"

namespace gpk::runtime {

// In the order in which their evictable blocks leave the device. Blocks of a class make room only
// for allocations of the same class or a higher one.
enum class PoolClass : std::uint8_t { kBestEffort = 0, kBurstable = 1, kGuaranteed = 2 };

// Thread safe and exact: at no instant is more charged than the limit.
class PoolAccount {
 public:
  // `limit_bytes` 0: none.
  PoolAccount(std::uint64_t id, std::size_t limit_bytes, PoolClass evict_class,
              std::string name = {}) noexcept
      : id_(id), class_(evict_class), name_(std::move(name)), limit_bytes_(limit_bytes) {}

  // False, and nothing charged, where the limit would be passed.
  [[nodiscard]] bool charge(std::size_t bytes) noexcept {
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
  void uncharge(std::size_t bytes) noexcept {
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  void count_refusal() noexcept { num_refused_.fetch_add(1, std::memory_order_relaxed); }

  // A limit below what is used refuses new charges and takes nothing away.
  void set_limit(std::size_t limit_bytes) noexcept {
    limit_bytes_.store(limit_bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }  // from 1
  [[nodiscard]] PoolClass evict_class() const noexcept { return class_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] PoolAccountStats stats() const {
    return {.id = id_,
            .name = name_,
            .used_bytes = used_bytes_.load(std::memory_order_relaxed),
            .peak_bytes = peak_bytes_.load(std::memory_order_relaxed),
            .limit_bytes = limit_bytes_.load(std::memory_order_relaxed),
            .num_refused = num_refused_.load(std::memory_order_relaxed)};
  }

 private:
  std::uint64_t id_;
  PoolClass class_;
  std::string name_;
  std::atomic<std::size_t> limit_bytes_;
  std::atomic<std::size_t> used_bytes_{0};
  std::atomic<std::size_t> peak_bytes_{0};
  std::atomic<std::size_t> num_refused_{0};
};

}  // namespace gpk::runtime
