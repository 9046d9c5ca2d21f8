// A token bucket over a measured amount: nanoseconds of GPU time, or bytes.
#pragma once

#include <cstdint>

namespace gpk::runtime {

// Credit accrues at a fixed rate up to `burst`. Work may start while there is credit and is charged
// when its cost is known, so the credit can go negative; that debt is repaid before the next start.
// Over any time t the work started is at most rate * t + burst + the cost of one unit of work. The
// caller passes the time, which must be monotonic. Not thread safe.
class TokenBucket {
 public:
  // `rate_per_ns` > 0 and `burst` > 0, finite; kValue otherwise. Starts full.
  TokenBucket(double rate_per_ns, double burst, std::int64_t now_ns);

  [[nodiscard]] bool allowed(std::int64_t now_ns) { return credit(now_ns) > 0.0; }
  // A negative amount returns credit (never above the burst).
  void charge(double amount, std::int64_t now_ns);
  [[nodiscard]] double credit(std::int64_t now_ns);
  // Nanoseconds until allowed(); 0 when it is.
  [[nodiscard]] std::int64_t ready_in_ns(std::int64_t now_ns);

 private:
  double rate_per_ns_;
  double burst_;
  double credit_;
  std::int64_t updated_ns_;
};

}  // namespace gpk::runtime
