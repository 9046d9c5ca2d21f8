#include "sim/shadow.h"

#include <bit>

namespace gpk::sim {

void ShadowMemory::clear() {
  pages_.clear();
  last_ = nullptr;
  last_index_ = ~std::uint64_t{0};
  num_cells_ = 0;
}

ShadowMemory::Page* ShadowMemory::page_of(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t index = address / kPageBytes;
  if (index != last_index_) {
    auto found = pages_.find(index);
    if (found == pages_.end()) {
      if (num_cells_ >= kMaxCells) return nullptr;
      found = pages_.try_emplace(index).first;
      found->second.cells.resize(kPageBytes >> found->second.shift);
      num_cells_ += found->second.cells.size();
    }
    last_index_ = index;
    last_ = &found->second;
  }
  // The finest power of two that the range is a multiple of.
  const auto shift = static_cast<unsigned>(std::countr_zero(address | bytes));
  if (shift < last_->shift) refine(*last_, shift);
  return last_;
}

void ShadowMemory::refine(Page& page, unsigned shift) {
  std::vector<ShadowCell> cells(kPageBytes >> shift);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = page.cells[i >> (page.shift - shift)];
  num_cells_ += cells.size() - page.cells.size();
  page.cells = std::move(cells);
  page.shift = shift;
}

}  // namespace gpk::sim
