// Every range that kernels and copies may touch, and those that were freed not long ago.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/driver/fresh_memory.h"
#include "sim/launch.h"

namespace gpk::sim::driver {

enum class MemoryKind { kDevice, kMapped, kGlobal, kPinned, kRegistered };

struct Allocation {
  std::uint64_t base = 0;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  std::string name;
  std::size_t reserved_bytes = 0;  // of the mapping that holds it; 0: not ours
};

// Used with the machine's lock held. Addresses are host addresses.
class Allocations {
 public:
  Allocations() = default;
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  ~Allocations();

  // Zeroed memory with exact bounds and a page without access behind it; 0: none left.
  std::uint64_t allocate(std::size_t bytes, std::size_t align, MemoryKind kind, int device,
                         std::string name);
  // Frees what allocate() returned. Its addresses stay reserved, so that a later access is known as
  // one after free, until kMaxQuarantined younger ranges were freed.
  bool free(std::uint64_t base, MemoryKind kind);

  // Memory of the caller, or of the virtual memory functions. False where `base` is known already.
  bool add(Allocation allocation);
  bool remove(std::uint64_t base, MemoryKind kind);
  // Ranges that are gone: reported as freed where a kernel touches them.
  void note_freed(std::uint64_t base, std::size_t bytes, std::string name);

  // The allocation that holds all of the range; nullptr: none does. Neighbouring mappings of one
  // device count as one.
  [[nodiscard]] const Allocation* find(std::uint64_t address, std::size_t bytes = 1) const;
  [[nodiscard]] const Allocation* at(std::uint64_t base) const;
  void rename(std::uint64_t base, std::string name);
  [[nodiscard]] std::size_t used_bytes(int device, MemoryKind kind) const;
  [[nodiscard]] std::size_t count(MemoryKind kind) const;

  // The table as it is now, for a launch; shared until it changes.
  std::shared_ptr<const GlobalMemory> snapshot();

  // What of it nobody has written: memory of allocate(kDevice) and of mappings begins so.
  FreshMemory& fresh() { return fresh_; }

  static constexpr std::size_t kMaxQuarantined = 256;

 private:
  void changed() { snapshot_.reset(); }
  void forget_freed_in(std::uint64_t base, std::size_t bytes);

  std::map<std::uint64_t, Allocation> live_;
  std::map<std::uint64_t, Allocation> freed_;
  std::deque<std::uint64_t> freed_order_;
  std::uint64_t num_allocated_ = 0;
  FreshMemory fresh_;
  std::shared_ptr<const GlobalMemory> snapshot_;
};

}  // namespace gpk::sim::driver
