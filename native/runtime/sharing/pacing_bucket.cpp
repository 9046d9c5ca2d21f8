#include "runtime/sharing/pacing_bucket.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace gpk::runtime {

TokenBucket::TokenBucket(double rate_per_ns, double burst, std::int64_t now_ns)
    : rate_per_ns_(rate_per_ns), burst_(burst), credit_(burst), updated_ns_(now_ns) {
  if (!std::isfinite(rate_per_ns) || rate_per_ns <= 0.0 || !std::isfinite(burst) || burst <= 0.0)
    throw Error(Error::Kind::kValue,
                "TokenBucket: rate and burst must be finite and above 0, got " +
                    std::to_string(rate_per_ns) + " and " + std::to_string(burst));
}

double TokenBucket::credit(std::int64_t now_ns) {
  if (now_ns > updated_ns_) {
    credit_ = std::min(burst_, credit_ + rate_per_ns_ * static_cast<double>(now_ns - updated_ns_));
    updated_ns_ = now_ns;
  }
  return credit_;
}

void TokenBucket::charge(double amount, std::int64_t now_ns) {
  credit_ = std::min(burst_, credit(now_ns) - amount);
}

std::int64_t TokenBucket::ready_in_ns(std::int64_t now_ns) {
  const double missing = -credit(now_ns);
  if (missing < 0.0) return 0;
  return static_cast<std::int64_t>(std::floor(missing / rate_per_ns_)) + 1;
}

}  // namespace gpk::runtime
