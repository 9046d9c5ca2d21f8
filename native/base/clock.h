// The clock, injected: the real one, or one that a test or a simulation advances.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace gpk::inline base {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary epoch; monotonic.
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

// Advances only when told to.
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
