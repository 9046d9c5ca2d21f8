// Memory for keys and values in pages, and the pages of a sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/array.h"
#include "llm/model_config.h"

namespace gpk::llm {

// Pages of all layers; page i of every layer belongs to the same tokens. Not thread-safe.
class KvPages {
 public:
  // Throws InvalidArgument for a page that is no power of two from 16 on, OutOfMemory.
  KvPages(const ModelConfig& config, DType dtype, Device device, std::int64_t num_pages,
          std::int64_t page);

  // [pages, page, kv_heads, head_dim].
  [[nodiscard]] const Array& k(std::int64_t layer) const {
    return k_.at(static_cast<std::size_t>(layer));
  }
  [[nodiscard]] const Array& v(std::int64_t layer) const {
    return v_.at(static_cast<std::size_t>(layer));
  }
  [[nodiscard]] std::int64_t page() const noexcept { return page_; }
  [[nodiscard]] std::int64_t num_pages() const noexcept { return num_pages_; }
  [[nodiscard]] std::int64_t num_free() const noexcept {
    return static_cast<std::int64_t>(free_.size());
  }

  // Throws Error (kMemory) when all pages are taken.
  std::int32_t take();
  void give(std::int32_t page) { free_.push_back(page); }

 private:
  std::vector<Array> k_, v_;
  std::int64_t page_, num_pages_;
  std::vector<std::int32_t> free_;  // the next one last
};

// The tokens of one text that the cache holds, and their pages, which it owns.
class Sequence {
 public:
  Sequence(std::shared_ptr<KvPages> pages, std::int64_t max_length)
      : pages_(std::move(pages)), max_length_(max_length) {}
  ~Sequence() { truncate(0); }
  Sequence(Sequence&& other) noexcept = default;
  Sequence& operator=(Sequence&&) = delete;

  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t max_length() const noexcept { return max_length_; }
  [[nodiscard]] std::span<const std::int32_t> table() const noexcept { return table_; }

  // Pages for `length` tokens; the cache holds nothing in new ones yet. Throws InvalidArgument
  // beyond max_length, Error (kMemory), and is unchanged then.
  void reserve(std::int64_t length);
  // `count` more tokens are in the cache.
  void advance(std::int64_t count) { length_ += count; }
  // Forgets what comes after the first `length` tokens, pages included.
  void truncate(std::int64_t length);

 private:
  std::shared_ptr<KvPages> pages_;
  std::int64_t max_length_;
  std::int64_t length_ = 0;
  std::vector<std::int32_t> table_;
};

}  // namespace gpk::llm
