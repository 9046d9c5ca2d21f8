#include "runtime/sharing/partition_manager.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/error.h"
#include "runtime/text.h"

namespace gpk::runtime {
namespace {

constexpr SharePpb kWhole = 1'000'000'000;

[[noreturn]] void fail(Error::Kind kind, const std::string& message) {
  throw Error(kind, "PartitionManager: " + message);
}

SharePpb checked_share(double share, const char* what) {
  if (!(share >= 0.0 && share <= 1.0))
    fail(Error::Kind::kValue, phrase(what, " is ", share, ", expected 0 .. 1"));
  return share_ppb(share, what);
}

bool in_use(const PartitionUsage& usage) {
  return usage.memory_used_bytes != 0 || usage.active_streams != 0 || usage.pending_kernels != 0 ||
         usage.pending_transfers != 0;
}

void check_idle(const Partition& partition) {
  const PartitionUsage& usage = partition.usage;
  if (!in_use(usage)) return;
  fail(Error::Kind::kState,
       phrase("partition '", partition.id, "' is in use: ", bytes_text(usage.memory_used_bytes),
              " memory, ", usage.active_streams, " streams, ", usage.pending_kernels, " kernels, ",
              usage.pending_transfers, " transfers"));
}

bool take(Partition& partition, std::size_t& count, std::size_t limit) {
  if (!partition.enabled || count >= limit) {
    ++partition.usage.num_refused;
    return false;
  }
  ++count;
  return true;
}

void give_back(const Partition& partition, std::size_t& count, const char* what) {
  if (count == 0)
    fail(Error::Kind::kValue, phrase("partition '", partition.id, "' has no ", what, " to end"));
  --count;
}

}  // namespace

PartitionManager::PartitionManager(PartitionConfig config) : config_(config) {
  if (!(config_.overcommit_ratio >= 1.0))
    fail(Error::Kind::kValue,
         phrase("overcommit_ratio is ", config_.overcommit_ratio, ", expected at least 1"));
}

Partition& PartitionManager::at(std::string_view id) {
  return const_cast<Partition&>(std::as_const(*this).at(id));
}

const Partition& PartitionManager::at(std::string_view id) const {
  const auto found = partitions_.find(id);
  if (found == partitions_.end())
    fail(Error::Kind::kValue, phrase("partition '", id, "' does not exist"));
  return found->second;
}

void PartitionManager::check_fits(const PartitionLimits& limits) const {
  if (limits.memory_quota_bytes > std::numeric_limits<std::size_t>::max() - quota_bytes_)
    fail(Error::Kind::kState, "the sum of all memory quotas is above the largest number");
  const double ratio = config_.allow_overcommit ? config_.overcommit_ratio : 1.0;
  if (config_.allow_overcommit && ratio == 1.0) return;  // no bound set
  const double scaled = static_cast<double>(config_.total_memory_bytes) * ratio;
  const std::size_t total = ratio == 1.0 ? config_.total_memory_bytes
                            : scaled < static_cast<double>(std::numeric_limits<std::size_t>::max())
                                ? static_cast<std::size_t>(scaled)
                                : std::numeric_limits<std::size_t>::max();
  const std::size_t taken = quota_bytes_ + (config_.allow_overcommit ? 0 : unquoted_bytes_);
  if (limits.memory_quota_bytes > total - std::min(total, taken))
    fail(Error::Kind::kState, phrase("memory_quota is ", bytes_text(limits.memory_quota_bytes),
                                     ", only ", bytes_text(total - std::min(total, taken)), " of ",
                                     bytes_text(total), " are left"));
  const auto whole =
      static_cast<SharePpb>(std::min(ratio, kMaxShare) * static_cast<double>(kWhole));
  const auto check_share = [whole](SharePpb share, SharePpb used, const char* what) {
    if (share > whole - used)
      fail(Error::Kind::kState, phrase(what, " is ", share_of_ppb(share), ", only ",
                                       share_of_ppb(whole - used), " is left"));
  };
  check_share(checked_share(limits.compute_share, "compute_share"), compute_ppb_, "compute_share");
  check_share(checked_share(limits.bandwidth_share, "bandwidth_share"), bandwidth_ppb_,
              "bandwidth_share");
}

void PartitionManager::create_partition(std::string_view id, std::string_view name,
                                        const PartitionLimits& limits) {
  if (id.empty()) fail(Error::Kind::kValue, "id is empty");
  const SharePpb compute = checked_share(limits.compute_share, "compute_share");
  const SharePpb bandwidth = checked_share(limits.bandwidth_share, "bandwidth_share");
  const std::lock_guard lock(mutex_);
  if (partitions_.contains(id))
    fail(Error::Kind::kValue, phrase("partition '", id, "' exists already"));
  check_fits(limits);
  Partition partition;
  partition.id = id;
  partition.name = name;
  partition.limits = limits;
  order_.emplace_back(id);
  partitions_.emplace(std::string(id), std::move(partition));
  quota_bytes_ += limits.memory_quota_bytes;
  compute_ppb_ += compute;
  bandwidth_ppb_ += bandwidth;
  if (default_.empty()) default_ = id;
}

Partition PartitionManager::delete_partition(std::string_view id) {
  const std::lock_guard lock(mutex_);
  check_idle(at(id));
  const auto found = partitions_.find(id);
  Partition partition = std::move(found->second);
  partitions_.erase(found);
  std::erase(order_, partition.id);
  for (const std::string& task : partition.tasks) task_partition_.erase(task);
  quota_bytes_ -= partition.limits.memory_quota_bytes;
  compute_ppb_ -= share_ppb(partition.limits.compute_share, "compute_share");
  bandwidth_ppb_ -= share_ppb(partition.limits.bandwidth_share, "bandwidth_share");
  if (default_ == partition.id) default_ = order_.empty() ? std::string() : order_.front();
  listeners_.notify();
  return partition;
}

std::optional<Partition> PartitionManager::get(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const auto found = partitions_.find(id);
  if (found == partitions_.end()) return std::nullopt;
  return found->second;
}

void PartitionManager::set_enabled(std::string_view id, bool enabled) {
  const std::lock_guard lock(mutex_);
  at(id).enabled = enabled;
  if (enabled) listeners_.notify();
}

void PartitionManager::assign_task(std::string_view task, std::string_view partition) {
  const std::lock_guard lock(mutex_);
  Partition& target = at(partition);
  const auto found = task_partition_.find(task);
  if (found != task_partition_.end()) {
    at(found->second).tasks.erase(std::string(task));
    found->second = partition;
  } else {
    task_partition_.emplace(task, partition);
  }
  target.tasks.emplace(task);
}

bool PartitionManager::unassign_task(std::string_view task) {
  const std::lock_guard lock(mutex_);
  const auto found = task_partition_.find(task);
  if (found == task_partition_.end()) return false;
  at(found->second).tasks.erase(std::string(task));
  task_partition_.erase(found);
  return true;
}

std::optional<std::string> PartitionManager::get_task_partition(std::string_view task) const {
  const std::lock_guard lock(mutex_);
  const auto found = task_partition_.find(task);
  if (found != task_partition_.end()) return found->second;
  if (default_.empty()) return std::nullopt;
  return default_;
}

void PartitionManager::set_default(std::string_view id) {
  const std::lock_guard lock(mutex_);
  default_ = at(id).id;
}

std::optional<std::string> PartitionManager::default_partition() const {
  const std::lock_guard lock(mutex_);
  if (default_.empty()) return std::nullopt;
  return default_;
}

std::vector<std::string> PartitionManager::partition_ids() const {
  const std::lock_guard lock(mutex_);
  return order_;
}

std::vector<Partition> PartitionManager::partitions() const {
  const std::lock_guard lock(mutex_);
  std::vector<Partition> list;
  for (const std::string& id : order_) list.push_back(at(id));
  return list;
}

PartitionStats PartitionManager::stats() const {
  const std::lock_guard lock(mutex_);
  const auto num_active = std::count_if(partitions_.begin(), partitions_.end(),
                                        [](const auto& entry) { return entry.second.enabled; });
  const std::size_t total = config_.total_memory_bytes;
  return {.partition_count = partitions_.size(),
          .active_partitions = static_cast<std::size_t>(num_active),
          .total_memory_allocated_bytes = quota_bytes_,
          .total_compute_allocated = share_of_ppb(compute_ppb_),
          .total_bandwidth_allocated = share_of_ppb(bandwidth_ppb_),
          .available_memory_bytes = total - std::min(total, quota_bytes_),
          .available_compute = share_of_ppb(std::max<SharePpb>(0, kWhole - compute_ppb_)),
          .available_bandwidth = share_of_ppb(std::max<SharePpb>(0, kWhole - bandwidth_ppb_)),
          .memory_used_bytes = used_bytes_};
}

void PartitionManager::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, partition] : partitions_) check_idle(partition);
  partitions_.clear();
  order_.clear();
  task_partition_.clear();
  default_.clear();
  quota_bytes_ = 0;
  compute_ppb_ = bandwidth_ppb_ = 0;
}

std::size_t PartitionManager::own_limit_bytes(const Partition& partition) const noexcept {
  if (partition.limits.memory_quota_bytes != 0) return partition.limits.memory_quota_bytes;
  const std::size_t total = config_.total_memory_bytes;
  return config_.allow_overcommit ? total : total - std::min(total, quota_bytes_);
}

std::size_t PartitionManager::own_left_bytes(const Partition& partition) const noexcept {
  // Partitions without a quota share one limit.
  const bool shares = partition.limits.memory_quota_bytes == 0 && !config_.allow_overcommit;
  const std::size_t used = shares ? unquoted_bytes_ : partition.usage.memory_used_bytes;
  const std::size_t limit = own_limit_bytes(partition);
  return limit - std::min(limit, used);
}

PartitionManager::Charge PartitionManager::charge_memory(std::string_view id, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  PartitionUsage& usage = partition.usage;
  if (!partition.enabled || bytes > own_left_bytes(partition)) {
    ++usage.num_refused;
    return Charge::kPartitionFull;
  }
  if (bytes > config_.total_memory_bytes - used_bytes_) {
    ++usage.num_refused;
    return Charge::kDeviceFull;
  }
  usage.memory_used_bytes += bytes;
  usage.peak_memory_bytes = std::max(usage.peak_memory_bytes, usage.memory_used_bytes);
  used_bytes_ += bytes;
  if (partition.limits.memory_quota_bytes == 0) unquoted_bytes_ += bytes;
  return Charge::kGranted;
}

void PartitionManager::refund_memory(std::string_view id, std::size_t bytes) {
  revert_charge(id, bytes);
  listeners_.notify();
}

void PartitionManager::revert_charge(std::string_view id, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  if (bytes > partition.usage.memory_used_bytes)
    fail(Error::Kind::kValue,
         phrase("refund of ", bytes_text(bytes), " to partition '", partition.id, "', which uses ",
                bytes_text(partition.usage.memory_used_bytes)));
  partition.usage.memory_used_bytes -= bytes;
  used_bytes_ -= bytes;
  if (partition.limits.memory_quota_bytes == 0) unquoted_bytes_ -= bytes;
}

bool PartitionManager::open_stream(std::string_view id) {
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  return take(partition, partition.usage.active_streams, partition.limits.max_streams);
}

void PartitionManager::close_stream(std::string_view id) {
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  give_back(partition, partition.usage.active_streams, "stream");
}

bool PartitionManager::begin_kernel(std::string_view id) {
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  return take(partition, partition.usage.pending_kernels, partition.limits.max_pending_kernels);
}

void PartitionManager::end_kernel(std::string_view id, std::int64_t compute_ns) {
  if (compute_ns < 0)
    fail(Error::Kind::kValue, phrase("compute_ns is ", compute_ns, ", expected at least 0"));
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  give_back(partition, partition.usage.pending_kernels, "kernel");
  ++partition.usage.total_kernels;
  std::int64_t& total_ns = partition.usage.compute_time_ns;
  total_ns += std::min(compute_ns, std::numeric_limits<std::int64_t>::max() - total_ns);
}

bool PartitionManager::begin_transfer(std::string_view id) {
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  return take(partition, partition.usage.pending_transfers, partition.limits.max_pending_transfers);
}

void PartitionManager::end_transfer(std::string_view id, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Partition& partition = at(id);
  give_back(partition, partition.usage.pending_transfers, "transfer");
  ++partition.usage.total_transfers;
  partition.usage.transferred_bytes += bytes;
}

std::size_t PartitionManager::available_memory_bytes(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const Partition& partition = at(id);
  if (!partition.enabled) return 0;
  return std::min(own_left_bytes(partition), config_.total_memory_bytes - used_bytes_);
}

std::size_t PartitionManager::memory_limit_bytes(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  return std::min(own_limit_bytes(at(id)), config_.total_memory_bytes);
}

}  // namespace gpk::runtime
