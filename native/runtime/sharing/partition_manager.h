// The partitions of one device: who has which limits, and the accounts that enforce them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/memory_listener.h"
#include "runtime/share.h"
#include "runtime/sharing/partition.h"

namespace gpk::runtime {

struct PartitionConfig {
  std::size_t total_memory_bytes = std::size_t{8} << 30;
  // Quotas and shares may add up to more than the device.
  bool allow_overcommit = false;
  // With overcommit: they may add up to this many times the device; 1.0 sets no bound.
  double overcommit_ratio = 1.0;
};

struct PartitionStats {
  std::size_t partition_count;
  std::size_t active_partitions;  // enabled
  std::size_t total_memory_allocated_bytes;
  double total_compute_allocated;
  double total_bandwidth_allocated;
  std::size_t available_memory_bytes;
  double available_compute;
  double available_bandwidth;
  std::size_t memory_used_bytes;
};

// Thread safe. Memory charged to a partition never passes its quota, and the charges of all never
// pass the device. Without overcommit a quota is also a promise: partitions without a quota share
// only what no quota holds.
class PartitionManager {
 public:
  // kValue when overcommit_ratio is below 1 or not a number.
  explicit PartitionManager(PartitionConfig config = {});

  // The first becomes the default. kValue: the id is empty or taken, a share is outside 0 .. 1;
  // kState: memory, compute or bandwidth is above what is left.
  void create_partition(std::string_view id, std::string_view name, const PartitionLimits& limits);
  // The default moves to the oldest that is left. kValue when missing, kState while it is in use.
  Partition delete_partition(std::string_view id);
  [[nodiscard]] std::optional<Partition> get(std::string_view id) const;
  void set_enabled(std::string_view id, bool enabled);

  // A task belongs to one partition; assigning again moves it. kValue when the partition is
  // missing.
  void assign_task(std::string_view task, std::string_view partition);
  bool unassign_task(std::string_view task);
  // The default when the task is not assigned.
  [[nodiscard]] std::optional<std::string> get_task_partition(std::string_view task) const;
  void set_default(std::string_view id);
  [[nodiscard]] std::optional<std::string> default_partition() const;
  [[nodiscard]] std::vector<std::string> partition_ids() const;  // oldest first
  [[nodiscard]] std::vector<Partition> partitions() const;       // oldest first
  [[nodiscard]] PartitionStats stats() const;
  [[nodiscard]] const PartitionConfig& config() const noexcept { return config_; }
  // kState while any partition is in use.
  void clear();

  // Accounts. Each pair must balance. The charging half answers false, and changes nothing but
  // num_refused, when a limit would be passed or the partition is disabled; kValue when missing.
  // The other half: kValue when it gives back what was not taken.
  enum class Charge { kGranted, kPartitionFull, kDeviceFull };
  Charge charge_memory(std::string_view id, std::size_t bytes);
  void refund_memory(std::string_view id, std::size_t bytes);
  // Without a word to listeners: for a charge of this moment that is of no use.
  void revert_charge(std::string_view id, std::size_t bytes);
  bool open_stream(std::string_view id);
  void close_stream(std::string_view id);
  bool begin_kernel(std::string_view id);
  void end_kernel(std::string_view id, std::int64_t compute_ns);
  bool begin_transfer(std::string_view id);
  void end_transfer(std::string_view id, std::uint64_t bytes);

  // What the largest charge may be now, and with nothing in use.
  [[nodiscard]] std::size_t available_memory_bytes(std::string_view id) const;
  [[nodiscard]] std::size_t memory_limit_bytes(std::string_view id) const;
  // Told when a charge that was refused might be granted now.
  [[nodiscard]] MemoryListeners& listeners() noexcept { return listeners_; }

 private:
  using Partitions = std::map<std::string, Partition, std::less<>>;

  Partition& at(std::string_view id);
  [[nodiscard]] const Partition& at(std::string_view id) const;
  void check_fits(const PartitionLimits& limits) const;
  [[nodiscard]] std::size_t own_limit_bytes(const Partition& partition) const noexcept;
  [[nodiscard]] std::size_t own_left_bytes(const Partition& partition) const noexcept;

  const PartitionConfig config_;
  mutable std::mutex mutex_;
  Partitions partitions_;
  std::vector<std::string> order_;  // oldest first
  std::map<std::string, std::string, std::less<>> task_partition_;
  std::string default_;             // empty: none
  std::size_t quota_bytes_ = 0;     // of all quotas
  std::size_t used_bytes_ = 0;      // of all partitions
  std::size_t unquoted_bytes_ = 0;  // of those without a quota
  SharePpb compute_ppb_ = 0;
  SharePpb bandwidth_ppb_ = 0;
  MemoryListeners listeners_;
};

}  // namespace gpk::runtime
