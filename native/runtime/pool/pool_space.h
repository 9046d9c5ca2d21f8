// The pool's device resources: address space in regions, physical memory in chunks of one size, and
// the quota on the latter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/pool/pool_device.h"

namespace gpk::runtime {

struct PoolRange;

// A contiguous range of address space. Without virtual memory management it is one allocation,
// mapped for its whole life.
struct PoolRegion {
  PoolDevice::Address address = 0;
  std::size_t bytes = 0;
  std::vector<PoolDevice::Handle> handles;  // per chunk, 0: not mapped; empty: one allocation
  PoolRange* first = nullptr;               // the heap's list of its ranges
};

// Guarantees reserved_bytes() <= quota_bytes() at all times. Not thread safe: guarded by the pool's
// lock.
class PoolSpace {
 public:
  // `chunk_bytes` a power of two and a multiple of the granularity, `region_bytes` a multiple of
  // it. A quota of 0 is none.
  PoolSpace(PoolDevice& device, std::size_t chunk_bytes, std::size_t region_bytes,
            std::size_t quota_bytes);
  // Unmaps and releases everything: the device must be done with it.
  ~PoolSpace();
  PoolSpace(const PoolSpace&) = delete;
  PoolSpace& operator=(const PoolSpace&) = delete;

  [[nodiscard]] bool can_map() const noexcept { return can_map_; }
  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  [[nodiscard]] std::size_t num_chunks(std::size_t bytes) const noexcept {
    return bytes / chunk_bytes_ + (bytes % chunk_bytes_ != 0 ? 1 : 0);
  }
  [[nodiscard]] std::size_t quota_bytes() const noexcept { return quota_bytes_; }
  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return reserved_bytes_; }
  [[nodiscard]] std::size_t peak_reserved_bytes() const noexcept { return peak_bytes_; }
  // Number of times physical memory was allocated from the device.
  [[nodiscard]] std::size_t num_created() const noexcept { return num_created_; }
  // Physical chunks that are not mapped.
  [[nodiscard]] std::size_t num_spare() const noexcept { return spare_.size(); }
  // Spare chunks plus those the quota still allows, unless the device refused recently.
  [[nodiscard]] std::size_t num_available() const noexcept {
    return num_spare() + (refused_ ? 0 : num_creatable());
  }
  [[nodiscard]] const std::vector<std::unique_ptr<PoolRegion>>& regions() const noexcept {
    return regions_;
  }

  // Retry the device although it refused.
  void ask_again() noexcept { refused_ = false; }
  // Not below what is reserved: returns false.
  bool set_quota(std::size_t quota_bytes) noexcept;
  // Creates chunks until `num` are spare. False when the quota or the device has no more; those
  // created so far stay.
  bool ensure_spare(std::size_t num);
  // Destroys spare chunks, but for `num` of them. Returns the bytes.
  std::size_t destroy_spare(std::size_t num) noexcept;

  // A new region with room for `bytes`: unmapped, or fully mapped without virtual memory
  // management. nullptr when the quota or the device forbids it.
  PoolRegion* add_region(std::size_t bytes);
  // The region must have nothing mapped, or be a single allocation.
  void remove_region(PoolRegion* region) noexcept;

  // Maps `num` spare chunks at a chunk boundary of the region. False: the device cannot.
  bool map(PoolRegion& region, PoolDevice::Address address, std::size_t num);
  void unmap(PoolRegion& region, PoolDevice::Address address, std::size_t num) noexcept;

 private:
  [[nodiscard]] std::size_t num_creatable() const noexcept;
  PoolRegion* add_allocation(std::size_t bytes);
  void count(std::size_t bytes) noexcept;

  PoolDevice& device_;
  const bool can_map_;
  const std::size_t chunk_bytes_;
  const std::size_t region_bytes_;
  std::size_t quota_bytes_;
  std::size_t reserved_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  std::size_t num_handles_ = 0;
  std::size_t num_created_ = 0;
  bool refused_ = false;                   // the device was out of memory at the last attempt
  std::vector<PoolDevice::Handle> spare_;  // capacity for all existing handles
  std::vector<std::unique_ptr<PoolRegion>> regions_;
};

}  // namespace gpk::runtime
