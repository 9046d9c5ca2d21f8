// A ring of pinned memory that chunks pass through in order.
#pragma once

#include <cstddef>
#include <deque>

#include "runtime/transfer/transfer_device.h"

namespace gpk::runtime {

// Space is handed out in order and comes back in the same order. The memory is allocated with the
// first use and freed with the ring. Not thread safe.
class StagingRing {
 public:
  // `device` outlives the ring.
  StagingRing(CopyDevice& device, std::size_t capacity_bytes);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Whether acquire(bytes) gives memory now. Always true when nothing is handed out and
  // 0 < bytes <= capacity.
  [[nodiscard]] bool fits(std::size_t bytes) const noexcept;
  // fits(bytes) is required. Throws what the device throws when it has no pinned memory; then
  // nothing is handed out.
  void* acquire(std::size_t bytes);
  // Takes back the oldest piece.
  void release_oldest() noexcept;

  [[nodiscard]] std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }
  [[nodiscard]] std::size_t num_pieces() const noexcept { return pieces_.size(); }
  [[nodiscard]] std::size_t allocated_bytes() const noexcept {
    return memory_ == nullptr ? 0 : capacity_bytes_;
  }

 private:
  struct Piece {
    std::size_t offset;
    std::size_t bytes;
  };
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  [[nodiscard]] std::size_t place(std::size_t bytes) const noexcept;

  CopyDevice& device_;
  const std::size_t capacity_bytes_;
  std::byte* memory_ = nullptr;
  std::deque<Piece> pieces_;  // oldest first
};

}  // namespace gpk::runtime
