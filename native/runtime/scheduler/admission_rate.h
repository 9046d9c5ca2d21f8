// Completion rate of tasks, measured while any is active: the basis of wait estimates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace gpk::runtime {

// Not thread safe.
class CompletionRate {
 public:
  void task_started(std::int64_t now_ns) noexcept {
    if (num_active_++ == 0) since_ns_ = now_ns;  // idle time does not count
  }

  void task_ended(std::int64_t now_ns) noexcept {
    const std::int64_t interval_ns = now_ns - since_ns_;
    mean_ns_ = measured_ ? mean_ns_ + (interval_ns - mean_ns_) / kMemory : interval_ns;
    measured_ = true;
    since_ns_ = now_ns;
    if (num_active_ > 0) --num_active_;
  }

  // Until `num_ends` more tasks have ended; nullopt before the first measurement.
  [[nodiscard]] std::optional<std::int64_t> wait_ns(std::size_t num_ends) const noexcept {
    if (!measured_) return std::nullopt;
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    if (num_ends == 0 || mean_ns_ == 0) return 0;
    if (num_ends > static_cast<std::size_t>(kMax / mean_ns_)) return kMax;
    return mean_ns_ * static_cast<std::int64_t>(num_ends);
  }

 private:
  static constexpr std::int64_t kMemory = 8;  // the mean covers roughly the last eight intervals

  std::size_t num_active_ = 0;
  std::int64_t since_ns_ = 0;
  std::int64_t mean_ns_ = 0;
  bool measured_ = false;
};

}  // namespace gpk::runtime
