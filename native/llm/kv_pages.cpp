#include "llm/kv_pages.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"

namespace gpk::llm {
namespace {

// The number of pages.
std::int64_t checked(std::int64_t num_pages, std::int64_t page) {
  if (page < 16 || !std::has_single_bit(static_cast<std::uint64_t>(page)))
    throw InvalidArgument(
        cat("kv_pages: page is ", page, " tokens, expected a power of two from 16 on"));
  if (num_pages < 1)
    throw InvalidArgument(cat("kv_pages: num_pages is ", num_pages, ", expected 1 or more"));
  return num_pages;
}

}  // namespace

KvPages::KvPages(const ModelConfig& config, DType dtype, Device device, std::int64_t num_pages,
                 std::int64_t page)
    : cache_(Array::empty({2 * config.num_layers, checked(num_pages, page), page,
                           config.num_kv_heads, config.head_dim},
                          dtype, device, "kv_pages")),
      page_(page),
      counts_(num_pages) {
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    k_.push_back(squeeze(slice_axis(cache_, 0, 2 * i, 1, 1), {0}, "kv_pages"));
    v_.push_back(squeeze(slice_axis(cache_, 0, 2 * i + 1, 1, 1), {0}, "kv_pages"));
  }
}

std::size_t KvPages::page_bytes(const ModelConfig& config, DType dtype, std::int64_t page) {
  return static_cast<std::size_t>(2 * config.num_layers * page * config.kv_size()) *
         itemsize(dtype);
}

std::size_t KvPages::page_bytes() const {
  return cache_.nbytes() / static_cast<std::size_t>(num_pages());
}

void KvPages::copy(std::int32_t from, std::int32_t to) {
  const auto page = [&](std::int32_t i) { return slice_axis(cache_, 1, i, 1, 1); };
  ops::copy_into(page(to), page(from), "kv_pages");
}

void Sequence::reserve(std::int64_t length) {
  if (length > max_length_)
    throw InvalidArgument(cat("generate: the text would have ", length,
                              " tokens, expected at most max_length, ", max_length_));
  PageCounts& counts = pages_->counts();
  const std::size_t before = table_.size();
  const auto wanted = static_cast<std::size_t>(ceil_div(length, pages_->page()));
  try {
    while (table_.size() < wanted) table_.push_back(counts.take());
    for (auto i = static_cast<std::size_t>(length_ / pages_->page()); i < before && i < wanted;
         ++i) {
      if (counts.holders(table_[i]) == 1) continue;
      const std::int32_t own = counts.take();
      pages_->copy(table_[i], own);
      counts.give(std::exchange(table_[i], own));
    }
  } catch (...) {
    for (; table_.size() > before; table_.pop_back()) counts.give(table_.back());
    throw;
  }
}

std::int64_t Sequence::pages_missing(std::int64_t length) const {
  const std::int64_t wanted = ceil_div(length, pages_->page());
  const auto held = static_cast<std::int64_t>(table_.size());
  std::int64_t missing = std::max<std::int64_t>(wanted - held, 0);
  for (std::int64_t i = length_ / pages_->page(); i < std::min(held, wanted); ++i)
    if (pages_->counts().holders(table_[static_cast<std::size_t>(i)]) > 1) ++missing;
  return missing;
}

void Sequence::adopt(std::span<const std::int32_t> pages, std::int64_t length) {
  table_.assign(pages.begin(), pages.end());
  length_ = length;
}

Sequence Sequence::fork() const {
  Sequence copy(pages_, max_length_, far_);
  const auto held = static_cast<std::size_t>(ceil_div(length_, pages_->page()));
  for (const std::int32_t page : table().first(held)) pages_->counts().share(page);
  copy.adopt(table().first(held), length_);
  return copy;
}

void Sequence::truncate(std::int64_t length) {
  if (pages_ == nullptr) return;  // moved from
  const auto kept = static_cast<std::size_t>(ceil_div(length, pages_->page()));
  for (; table_.size() > kept; table_.pop_back()) pages_->counts().give(table_.back());
  length_ = std::min(length_, length);
}

}  // namespace gpk::llm
