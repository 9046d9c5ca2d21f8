// Time, injected: the real clock, or one that a test or a simulation moves.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace gpk::inline base {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since some fixed start; never goes back.
  [[nodiscard]] virtual std::int64_t now_ns() const noexcept = 0;
};

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_ns() const noexcept override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Stands still until it is told to move.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_ns() const noexcept override { return now_ns_.load(); }
  void advance_ns(std::int64_t ns) noexcept { now_ns_ += ns; }
  // `ns` must not be in the past.
  void set_ns(std::int64_t ns) noexcept { now_ns_ = ns; }

 private:
  std::atomic<std::int64_t> now_ns_{0};
};

}  // namespace gpk::inline base
