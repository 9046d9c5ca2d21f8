// The ledger of one device's partitions: which part of it each was promised.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/share.h"

namespace gpk::runtime {

struct PartitionShare {
  std::string name;
  std::size_t memory_bytes = 0;  // 0: no memory of its own
  double compute = 0.0;          // 0 .. 1
  double bandwidth = 0.0;        // 0 .. 1
};

// Thread safe. Neither memory nor shares ever add up to more than the device.
class PartitionBook {
 public:
  explicit PartitionBook(std::size_t total_memory_bytes)
      : total_memory_bytes_(total_memory_bytes) {}

  // kValue: the name is empty or taken, a share is outside 0 .. 1; kState: more than is left.
  void add(const PartitionShare& share);
  // False for an unknown name.
  bool remove(std::string_view name) noexcept;
  [[nodiscard]] std::vector<PartitionShare> shares() const;  // oldest first

 private:
  struct Entry {
    PartitionShare share;
    SharePpb compute_ppb;
    SharePpb bandwidth_ppb;
  };

  const std::size_t total_memory_bytes_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // oldest first
};

}  // namespace gpk::runtime
