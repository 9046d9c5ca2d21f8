// A part of the GPU: what it may use, what it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace gpk::runtime {

struct PartitionLimits {
  static PartitionLimits with_memory(std::size_t quota_bytes);
  static PartitionLimits with_compute(double share);

  // Copies with one limit changed. Shares are clamped to 0 .. 1; kValue when not a number.
  [[nodiscard]] PartitionLimits memory(std::size_t quota_bytes) const;
  [[nodiscard]] PartitionLimits compute(double share) const;
  [[nodiscard]] PartitionLimits bandwidth(double share) const;

  std::size_t memory_quota_bytes = 0;  // 0: no quota of its own; shares what no quota holds
  double compute_share = 1.0;
  double bandwidth_share = 1.0;
  std::size_t max_streams = 16;
  std::size_t max_pending_kernels = 1024;
  std::size_t max_pending_transfers = 256;
};

struct PartitionUsage {
  [[nodiscard]] double compute_time_ms() const noexcept {
    return static_cast<double>(compute_time_ns) / 1e6;
  }

  std::size_t memory_used_bytes = 0;
  std::size_t peak_memory_bytes = 0;
  std::size_t active_streams = 0;
  std::size_t pending_kernels = 0;
  std::size_t pending_transfers = 0;
  std::size_t total_kernels = 0;
  std::size_t total_transfers = 0;
  std::uint64_t transferred_bytes = 0;
  std::int64_t compute_time_ns = 0;
  std::size_t num_refused = 0;  // charges turned down
};

struct Partition {
  // Used over quota; 0 without a quota.
  [[nodiscard]] double memory_utilization() const noexcept;

  std::string id;
  std::string name;
  PartitionLimits limits;
  PartitionUsage usage;
  std::set<std::string> tasks;
  bool enabled = true;
};

}  // namespace gpk::runtime
