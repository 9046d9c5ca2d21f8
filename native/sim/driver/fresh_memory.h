// Memory that was handed out and that nobody has written since, for the check of uninitialised
// reads. What is not known to be unwritten counts as written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "sim/launch.h"

namespace gpk::sim::driver {

// Thread safe. Addresses are host addresses.
class FreshMemory {
 public:
  // Nobody has written the range. name: for reports; empty: that of its allocation.
  void add(std::uint64_t base, std::size_t bytes, std::string name);
  // Somebody has, or it is gone.
  void write(std::uint64_t base, std::size_t bytes);
  // A kernel ran that nobody watched.
  void write_all();

  // `memory` for a launch that is checked: what its kernel writes is noted here.
  std::shared_ptr<const GlobalMemory> watched(std::shared_ptr<const GlobalMemory> memory);

 private:
  struct Range {
    std::size_t bytes = 0;
    std::string name;
    std::size_t offset = 0;                 // of the range in what was added
    std::shared_ptr<std::uint8_t> written;  // by byte; null: none, and no kernel knows the range
  };

  void cut(std::uint64_t base, std::size_t bytes);

  std::mutex mutex_;
  std::map<std::uint64_t, Range> ranges_;  // disjoint
};

}  // namespace gpk::sim::driver
