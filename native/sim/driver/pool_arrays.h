// The arrays that a pool has made of its blocks: bounds tighter than those of the mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "sim/launch.h"

namespace gpk::sim::driver {

// Thread safe. Addresses are host addresses.
class PoolArrays {
 public:
  struct Extent {
    std::size_t bytes = 0;  // of the array
    std::size_t room = 0;   // of its block
  };

  // An array of `bytes` begins a block of `room`; what was there before is gone.
  void add(std::uint64_t base, Extent extent);
  // Nothing is known of the block.
  void forget(std::uint64_t base, std::size_t room);

  // `memory` for a launch: the rest of a block is out of bounds.
  std::shared_ptr<const GlobalMemory> bounded(std::shared_ptr<const GlobalMemory> memory);

 private:
  using Arrays = std::map<std::uint64_t, Extent>;
  class Bounded;

  std::mutex mutex_;
  Arrays arrays_;                         // by base; blocks are disjoint
  std::shared_ptr<const Arrays> shared_;  // a copy, until they change
};

}  // namespace gpk::sim::driver
