#include "runtime/transfer/staging_ring.h"

#include "base/error.h"
#include "base/round_up.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kAlignBytes = 256;

}  // namespace

StagingRing::StagingRing(CopyDevice& device, std::size_t capacity_bytes)
    : device_(device), capacity_bytes_(capacity_bytes / kAlignBytes * kAlignBytes) {
  if (capacity_bytes_ == 0)
    throw Error(Error::Kind::kValue, "StagingRing: capacity must be at least 256 bytes, got " +
                                         std::to_string(capacity_bytes));
}

StagingRing::~StagingRing() {
  if (memory_ != nullptr) device_.free_pinned(memory_, capacity_bytes_);
}

// The free space is one run after the newest piece, or two when that run meets the end.
std::size_t StagingRing::place(std::size_t bytes) const noexcept {
  if (bytes == 0 || bytes > capacity_bytes_) return kNowhere;
  if (pieces_.empty()) return 0;
  const std::size_t first = pieces_.front().offset;
  const std::size_t newest_end = pieces_.back().offset + pieces_.back().bytes;
  const std::size_t end = round_up(newest_end, kAlignBytes);
  if (pieces_.back().offset < first) return end < first && bytes <= first - end ? end : kNowhere;
  if (end < capacity_bytes_ && bytes <= capacity_bytes_ - end) return end;
  return bytes <= first ? 0 : kNowhere;
}

bool StagingRing::fits(std::size_t bytes) const noexcept { return place(bytes) != kNowhere; }

void* StagingRing::acquire(std::size_t bytes) {
  const std::size_t offset = place(bytes);
  if (offset == kNowhere)
    throw Error(Error::Kind::kState, "StagingRing: no room for " + std::to_string(bytes) + " of " +
                                         std::to_string(capacity_bytes_) + " bytes");
  if (memory_ == nullptr)
    memory_ = static_cast<std::byte*>(device_.allocate_pinned(capacity_bytes_));
  pieces_.push_back({offset, bytes});
  return memory_ + offset;
}

void StagingRing::release_oldest() noexcept {
  if (!pieces_.empty()) pieces_.pop_front();
}

}  // namespace gpk::runtime
