// Sequences in host memory: where they wait while others need their pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "llm/kv_pages.h"

namespace gpk::llm {

class KvSwap;

// The keys and values of a sequence in pinned memory, which it owns.
class SwappedSequence {
 public:
  SwappedSequence(SwappedSequence&& other) noexcept = default;
  SwappedSequence& operator=(SwappedSequence&&) = delete;
  ~SwappedSequence();

  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t num_pages() const noexcept {
    return static_cast<std::int64_t>(blocks_.size());
  }

 private:
  friend class KvSwap;
  SwappedSequence(KvSwap& swap, std::int64_t length) : swap_(&swap), length_(length) {}

  KvSwap* swap_;
  std::int64_t length_;
  std::vector<std::shared_ptr<PinnedMemory>> blocks_;  // one per page
};

// Copies are enqueued on the current stream, and nothing waits: all calls of one swap use the same
// stream. Not thread-safe.
class KvSwap {
 public:
  // Up to `max_pages` pages in host memory: a few on a GPU at once, since pinning takes long, the
  // others when they are needed. All are kept. Throws OutOfMemory.
  KvSwap(std::shared_ptr<KvPages> pages, std::int64_t max_pages);
  ~KvSwap();
  KvSwap(const KvSwap&) = delete;
  KvSwap& operator=(const KvSwap&) = delete;

  [[nodiscard]] std::int64_t num_free() const noexcept { return max_pages_ - num_used_; }
  [[nodiscard]] std::int64_t num_used() const noexcept { return num_used_; }

  // The sequence is empty afterwards. Throws Error (kMemory) when host memory is used up.
  SwappedSequence evict(Sequence& sequence);
  // Throws Error (kMemory) when there are not enough pages; `from` is unchanged then.
  void restore(SwappedSequence& from, Sequence& to);

 private:
  friend class SwappedSequence;
  enum class Direction : std::uint8_t { kToHost, kToDevice };
  void copy(std::int32_t page, PinnedMemory& block, Direction direction);
  std::shared_ptr<PinnedMemory> take();

  std::shared_ptr<KvPages> pages_;
  std::int64_t max_pages_;
  std::int64_t num_used_ = 0;
  std::vector<std::shared_ptr<PinnedMemory>> free_;
};

}  // namespace gpk::llm
