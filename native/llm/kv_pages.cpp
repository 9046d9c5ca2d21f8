#include "llm/kv_pages.h"

#include <bit>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {

KvPages::KvPages(const ModelConfig& config, DType dtype, Device device, std::int64_t num_pages,
                 std::int64_t page)
    : page_(page), num_pages_(num_pages) {
  if (page < 16 || !std::has_single_bit(static_cast<std::uint64_t>(page)))
    throw InvalidArgument(
        cat("kv_pages: page is ", page, " tokens, expected a power of two from 16 on"));
  if (num_pages < 1)
    throw InvalidArgument(cat("kv_pages: num_pages is ", num_pages, ", expected 1 or more"));
  const Dims shape{num_pages, page, config.num_kv_heads, config.head_dim};
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    k_.push_back(Array::empty(shape, dtype, device, "kv_pages"));
    v_.push_back(Array::empty(shape, dtype, device, "kv_pages"));
  }
  for (std::int64_t i = num_pages; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
}

std::int32_t KvPages::take() {
  if (free_.empty())
    throw Error(Error::Kind::kMemory,
                cat("kv_pages: all ", num_pages_, " pages of ", page_, " tokens are in use"));
  const std::int32_t page = free_.back();
  free_.pop_back();
  return page;
}

void Sequence::reserve(std::int64_t length) {
  if (length > max_length_)
    throw InvalidArgument(cat("generate: the text would have ", length,
                              " tokens, expected at most max_length, ", max_length_));
  const std::size_t before = table_.size();
  const auto wanted = static_cast<std::size_t>(ceil_div(length, pages_->page()));
  try {
    while (table_.size() < wanted) table_.push_back(pages_->take());
  } catch (...) {
    for (; table_.size() > before; table_.pop_back()) pages_->give(table_.back());
    throw;
  }
}

void Sequence::truncate(std::int64_t length) {
  if (pages_ == nullptr) return;  // moved from
  const auto kept = static_cast<std::size_t>(ceil_div(length, pages_->page()));
  for (; table_.size() > kept; table_.pop_back()) pages_->give(table_.back());
  length_ = std::min(length_, length);
}

}  // namespace gpk::llm
