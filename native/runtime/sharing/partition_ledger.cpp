#include "runtime/sharing/partition_ledger.h"

#include <utility>

#include "runtime/error.h"

namespace gpk::runtime {

PartitionLedger::PartitionLedger(std::shared_ptr<PartitionManager> partitions)
    : partitions_(std::move(partitions)) {
  if (!partitions_) throw Error(Error::Kind::kValue, "PartitionLedger: partitions is null");
}

ReserveResult PartitionLedger::reserve(std::size_t bytes, std::string_view account) {
  try {
    switch (partitions_->charge_memory(account, bytes)) {
      case PartitionManager::Charge::kGranted: return ReserveResult::kGranted;
      case PartitionManager::Charge::kPartitionFull: return ReserveResult::kAccountFull;
      case PartitionManager::Charge::kDeviceFull: return ReserveResult::kDeviceFull;
    }
  } catch (const Error&) {  // deleted after the task came
  }
  return ReserveResult::kAccountFull;
}

void PartitionLedger::revert(std::size_t bytes, std::string_view account) noexcept {
  try {
    partitions_->revert_charge(account, bytes);
  } catch (const Error&) {  // a partition in use cannot be deleted, so its charge is there
  }
}

void PartitionLedger::release(std::size_t bytes, std::string_view account) noexcept {
  revert(bytes, account);
  partitions_->listeners().notify();
}

std::size_t PartitionLedger::capacity_bytes(std::string_view account) const noexcept {
  try {
    return partitions_->memory_limit_bytes(account);
  } catch (const Error&) {
    return 0;
  }
}

std::size_t PartitionLedger::available_bytes(std::string_view account) const noexcept {
  try {
    return partitions_->available_memory_bytes(account);
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace gpk::runtime
