// What the partitions and classes of one device have in common: the book, the multiprocessors, the
// pacers, the foreground.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/green_context.h"
#include "device/compute_pacer.h"
#include "device/device_partition.h"
#include "device/foreground.h"
#include "device/memory_account.h"
#include "runtime/sharing/partition_book.h"

namespace gpk::inline core {
class Context;
}

namespace gpk::device {

// Lives as long as a partition or a stream of a class of the device. Thread safe.
class DeviceSharing {
 public:
  // Made where there is none. Throws GpuUnavailable / CudaError.
  static std::shared_ptr<DeviceSharing> get(Device device);
  // Null where there is none.
  static std::shared_ptr<DeviceSharing> find(Device device);

  explicit DeviceSharing(Device device);
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] Context* context() const noexcept { return context_; }  // nullptr on the CPU
  [[nodiscard]] runtime::PartitionBook& book() noexcept { return book_; }
  [[nodiscard]] const std::shared_ptr<Foreground>& foreground() const { return foreground_; }
  [[nodiscard]] const std::shared_ptr<ComputePacer>& pacer() const { return pacer_; }

  void add(PartitionCore& partition);
  void remove(PartitionCore& partition) noexcept;
  // The account of an open partition; null where there is none of that name.
  [[nodiscard]] std::shared_ptr<MemoryAccount> account_of(std::string_view name) const;
  // Gives every partition that asked for compute and has none yet its part. All that are new are
  // divided together, so that the parts fit one another.
  void divide();
  [[nodiscard]] std::size_t granule_sms() const;

 private:
  void divide_by_groups(const std::vector<PartitionCore*>& asking);
  void pace(PartitionCore& partition);

  const Device device_;
  Context* context_ = nullptr;
  runtime::PartitionBook book_;
  std::shared_ptr<Foreground> foreground_;
  std::shared_ptr<ComputePacer> pacer_;
  mutable std::mutex mutex_;
  std::vector<PartitionCore*> partitions_;  // oldest first
  bool groups_tried_ = false;
  std::shared_ptr<SmGroups> groups_;
  std::string no_groups_;  // why
};

// A partition without its streams, which keep it. What it holds is given back with it.
class PartitionCore {
 public:
  PartitionCore(std::shared_ptr<DeviceSharing> sharing, const PartitionRequest& request);
  ~PartitionCore();
  PartitionCore(const PartitionCore&) = delete;
  PartitionCore& operator=(const PartitionCore&) = delete;

  // Everything back, now instead of with the last stream.
  void release() noexcept;

  const std::shared_ptr<DeviceSharing> sharing;
  const PartitionRequest request;
  const std::uint64_t member;              // of the pacers
  std::shared_ptr<MemoryAccount> account;  // null: released

  // Under the lock of the sharing.
  bool divided = false;
  ComputeLimit compute = ComputeLimit::kNone;
  double given_compute = 0.0;
  std::string compute_note;
  std::shared_ptr<GreenContext> green;
};

}  // namespace gpk::device
