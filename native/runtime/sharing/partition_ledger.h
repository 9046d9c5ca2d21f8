// Scheduler reservations charged to partitions: the account of a task is its partition's id.
#pragma once

#include <memory>

#include "runtime/memory_ledger.h"
#include "runtime/sharing/partition_manager.h"

namespace gpk::runtime {

// Thread safe. An account that names no partition is full: nothing is reserved for it. (The default
// partition is looked up by whoever submits the task: it may change while the task lives.)
class PartitionLedger final : public MemoryLedger {
 public:
  // kValue when null.
  explicit PartitionLedger(std::shared_ptr<PartitionManager> partitions);

  ReserveResult reserve(std::size_t bytes, std::string_view account) override;
  void release(std::size_t bytes, std::string_view account) noexcept override;
  void revert(std::size_t bytes, std::string_view account) noexcept override;
  [[nodiscard]] std::size_t device_bytes() const noexcept override {
    return partitions_->config().total_memory_bytes;
  }
  [[nodiscard]] std::size_t capacity_bytes(std::string_view account) const noexcept override;
  [[nodiscard]] std::size_t available_bytes(std::string_view account) const noexcept override;
  void add_listener(MemoryListener& listener) override { partitions_->listeners().add(listener); }
  void remove_listener(MemoryListener& listener) noexcept override {
    partitions_->listeners().remove(listener);
  }

 private:
  const std::shared_ptr<PartitionManager> partitions_;
};

}  // namespace gpk::runtime
