#include "runtime/sharing/partition.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"
#include "runtime/text.h"

namespace gpk::runtime {
namespace {

double clamped(double share, const char* what) {
  if (std::isnan(share))
    throw Error(Error::Kind::kValue,
                phrase("PartitionLimits: ", what, " is not a number, expected 0 .. 1"));
  return std::clamp(share, 0.0, 1.0);
}

}  // namespace

PartitionLimits PartitionLimits::with_memory(std::size_t quota_bytes) {
  return PartitionLimits().memory(quota_bytes);
}

PartitionLimits PartitionLimits::with_compute(double share) {
  return PartitionLimits().compute(share);
}

PartitionLimits PartitionLimits::memory(std::size_t quota_bytes) const {
  PartitionLimits limits = *this;
  limits.memory_quota_bytes = quota_bytes;
  return limits;
}

PartitionLimits PartitionLimits::compute(double share) const {
  PartitionLimits limits = *this;
  limits.compute_share = clamped(share, "compute_share");
  return limits;
}

PartitionLimits PartitionLimits::bandwidth(double share) const {
  PartitionLimits limits = *this;
  limits.bandwidth_share = clamped(share, "bandwidth_share");
  return limits;
}

double Partition::memory_utilization() const noexcept {
  if (limits.memory_quota_bytes == 0) return 0.0;
  return static_cast<double>(usage.memory_used_bytes) /
         static_cast<double>(limits.memory_quota_bytes);
}

}  // namespace gpk::runtime
