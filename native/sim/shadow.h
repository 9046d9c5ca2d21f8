// The last accesses of memory, word by word; of bytes where accesses are narrower.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/clocks.h"

namespace gpk::sim {

// Who touched memory, and when by its own clock.
struct Stamp {
  Agent agent = 0;          // 0: nobody; kPending set: the number of an asynchronous operation
  std::uint32_t clock = 0;  // of the agent
  std::uint32_t sync = 0;   // of the warp: its lanes are ordered by warp-wide operations
  std::uint32_t location : 25 = 0;
  std::uint32_t lane : 5 = 0;
  std::uint32_t strong : 1 = 0;  // an atomic, volatile or relaxed access: two are no race
  std::uint32_t async : 1 = 0;   // by the async proxy
};
inline constexpr Agent kPending = 1u << 31;

struct ShadowCell {
  Stamp write;
  // Of the same value, not ordered with it: who knows any of them may read.
  std::array<Stamp, 2> again;
  std::array<Stamp, 2> reads;
};

class ShadowMemory {
 public:
  // Cells of the range, in order: body(cell, first byte of the cell or of the range, bytes).
  template <class Body>
  void visit(std::uint64_t address, std::size_t bytes, Body&& body) {
    const std::uint64_t end = address + bytes;
    while (address < end) {
      const std::uint64_t page_end = (address | (kPageBytes - 1)) + 1;
      const std::uint64_t stop = end < page_end ? end : page_end;
      Page* page = page_of(address, stop - address);
      if (page == nullptr) {
        address = stop;
        continue;
      }
      const std::uint64_t step = std::uint64_t{1} << page->shift;
      while (address < stop) {
        const std::uint64_t next = (address & ~(step - 1)) + step;
        const std::uint64_t last = next < stop ? next : stop;
        body(page->cells[(address & (kPageBytes - 1)) >> page->shift], address, last - address);
        address = last;
      }
    }
  }
  void clear();

 private:
  static constexpr std::uint64_t kPageBytes = 1024;
  static constexpr std::size_t kMaxCells = std::size_t{1} << 23;  // 640 MB; the rest is unwatched
  struct Page {
    unsigned shift = 2;  // bytes of a cell, as a power of two
    std::vector<ShadowCell> cells;
  };
  Page* page_of(std::uint64_t address, std::uint64_t bytes);
  void refine(Page& page, unsigned shift);

  std::unordered_map<std::uint64_t, Page> pages_;
  std::uint64_t last_index_ = ~std::uint64_t{0};
  Page* last_ = nullptr;
  std::size_t num_cells_ = 0;
};

}  // namespace gpk::sim
