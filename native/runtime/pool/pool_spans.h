// Small blocks: size classes, and the spans they are carved from, one class and stream each.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <iterator>
#include <memory>
#include <vector>

#include "base/round_up.h"
#include "runtime/pool/pool_block.h"

namespace gpk::runtime {

// Multiples of 256 up to 1 KiB, then four steps per power of two, up to 1 MiB.
struct PoolSizeClass {
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  // 1 <= bytes <= kMaxBytes.
  static constexpr std::uint32_t of(std::size_t bytes) noexcept {
    if (bytes <= 1024) return static_cast<std::uint32_t>((bytes - 1) >> 8);
    const auto width = static_cast<std::uint32_t>(std::bit_width(bytes - 1));
    return 4 * (width - 11) + static_cast<std::uint32_t>((bytes - 1) >> (width - 3));
  }
  static constexpr std::size_t bytes(std::uint32_t size_class) noexcept {
    if (size_class < 4) return std::size_t{256} * (size_class + 1);
    return std::size_t{size_class % 4 + 5} << (size_class / 4 + 7);
  }
  // Blocks in a span: 64 KiB worth, but at least eight while those are within half a megabyte.
  static constexpr std::size_t num_per_span(std::uint32_t size_class) noexcept {
    const std::size_t size = bytes(size_class);
    if (size <= 8192) return 65536 / size;
    return size <= 65536 ? 8 : (std::size_t{512} << 10) / size + (size > (512U << 10) ? 1 : 0);
  }
  static constexpr std::size_t span_bytes(std::uint32_t size_class) noexcept {
    return round_up(num_per_span(size_class) * bytes(size_class), 512);
  }
};

struct PoolSpan {
  PoolRange* range = nullptr;    // its arena is the span's
  PoolStream* stream = nullptr;  // home, as of the range
  std::uint32_t size_class = 0;
  std::size_t num_blocks = 0;
  std::size_t num_free = 0;
  std::atomic<bool> common{false};  // of the common arena: threads may cache its blocks
  std::unique_ptr<PoolBlock[]> blocks;
  PoolBlock* free = nullptr;
  PoolSpan* prev = nullptr;  // among those of its bin with free blocks
  PoolSpan* next = nullptr;
};

// Not thread safe: the pool's lock guards it.
class PoolSpans {
 public:
  PoolSpans() = default;
  ~PoolSpans();
  PoolSpans(const PoolSpans&) = delete;
  PoolSpans& operator=(const PoolSpans&) = delete;

  // A free block of the stream; nullptr when there is none.
  PoolBlock* take(PoolArena& arena, const PoolStream& stream, std::uint32_t size_class) noexcept;
  // Allocates what add() needs, so that it cannot fail.
  void prepare(PoolArena& arena, const PoolStream& stream, std::uint32_t size_class);
  // Splits a used range of span_bytes() into blocks.
  void add(PoolRange* range, std::uint32_t size_class) noexcept;
  // Frees the block. Returns the span's range when it is entirely free and its stream is dead or
  // has other spans with free blocks; else nullptr.
  PoolRange* put(PoolBlock* block) noexcept;
  // Detaches all unused spans, and calls give_back(range) for each.
  template <class GiveBack>
  void release_free(PoolArena& arena, GiveBack give_back) noexcept {
    for (auto it = arena.bins.begin(); it != arena.bins.end();) {
      for (PoolSpan* first : it->second.first)
        for (PoolSpan* span = first; span != nullptr;) {
          PoolSpan* next = span->next;
          if (span->num_free == span->num_blocks) give_back(detach(span));
          span = next;
        }
      it = it->second.num_spans == 0 ? arena.bins.erase(it) : std::next(it);
    }
  }
  // After the heap has moved the ranges of `from` to the other arena.
  void dissolve(PoolArena& from, PoolArena& into) noexcept;

 private:
  static PoolBins& bins_of(PoolArena& arena, const PoolStream& stream) noexcept;
  static void link(PoolBins& bins, PoolSpan* span) noexcept;
  static void unlink(PoolBins& bins, PoolSpan* span) noexcept;
  PoolRange* detach(PoolSpan* span) noexcept;

  std::array<PoolSpan*, kNumPoolSizeClasses> recycled_{};
  std::vector<std::unique_ptr<PoolSpan>> all_;
};

}  // namespace gpk::runtime
