// Keys and values of sources, the states that an encoder gave, for a decoder's cross attention.
#pragma once

#include <memory>
#include <vector>

#include "llm/kv_pages.h"
#include "llm/model.h"

namespace gpk::llm {

// Computed once for each source; any number of sequences read them.
class CrossCache {
 public:
  // Throws InvalidArgument for a model without cross attention, OutOfMemory.
  CrossCache(std::shared_ptr<const Model> model, std::int64_t num_sources, std::int64_t page);

  [[nodiscard]] const KvPages& pages() const noexcept { return *pages_; }
  [[nodiscard]] std::int64_t blocks() const noexcept { return blocks_; }  // of a source
  [[nodiscard]] std::int64_t max_length() const;                          // rows of a source

  // Sources from states [sources, rows, hidden_size]. Throws InvalidArgument for another shape,
  // dtype or device, Error (kMemory) when there is no room.
  std::vector<Sequence> add(const Array& states);

 private:
  std::shared_ptr<const Model> model_;
  std::shared_ptr<KvPages> pages_;
  std::int64_t blocks_;
};

}  // namespace gpk::llm
