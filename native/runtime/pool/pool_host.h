// Pinned host memory for evicted blocks. Allocation is slow, so freed blocks are cached.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "runtime/pool/pool_device.h"

namespace gpk::runtime {

// Not thread safe: the pool's lock guards it.
class PoolHost {
 public:
  // Holds at most `max_bytes` in all, 0: no limit.
  PoolHost(PoolDevice& device, std::size_t max_bytes) : device_(device), max_bytes_(max_bytes) {}
  ~PoolHost();
  PoolHost(const PoolHost&) = delete;
  PoolHost& operator=(const PoolHost&) = delete;

  struct Piece {
    void* data = nullptr;
    std::size_t bytes = 0;  // at least the size requested
  };
  // A cached block that is not much larger, or a new one; cached blocks are released for it. data
  // is nullptr when the limit or the device forbids it.
  Piece allocate(std::size_t bytes);
  // Caches the block.
  void free(const Piece& piece) noexcept;
  // Never reused or released while the pool lives: a copy may still be in flight.
  void abandon(const Piece& piece) noexcept;
  // Releases cached blocks to the device. Returns the bytes.
  std::size_t trim() noexcept;

  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

 private:
  void give_back(const Piece& piece) noexcept;

  PoolDevice& device_;
  const std::size_t max_bytes_;
  std::size_t held_bytes_ = 0;
  std::multimap<std::size_t, void*> kept_;  // by size
  std::vector<Piece> abandoned_;
};

}  // namespace gpk::runtime
