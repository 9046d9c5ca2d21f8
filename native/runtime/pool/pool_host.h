// Pinned host memory for evicted blocks. It is slow to allocate, so it is kept for the next one.
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
    std::size_t bytes = 0;  // at least what was asked for
  };
  // A kept piece that is not much larger, or a new one; kept pieces make way for it. data is
  // nullptr when the limit or the device forbids it.
  Piece allocate(std::size_t bytes);
  // Keeps the piece.
  void free(const Piece& piece) noexcept;
  // Never used or given back again while the pool lives: a copy may still be going on.
  void abandon(const Piece& piece) noexcept;
  // Gives kept pieces back to the device. Returns the bytes.
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
