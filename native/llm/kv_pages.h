// Memory for keys and values in pages, and the pages of a sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/array.h"
#include "llm/model_config.h"
#include "llm/page_counts.h"

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
  [[nodiscard]] std::int64_t num_layers() const noexcept {
    return static_cast<std::int64_t>(k_.size());
  }
  [[nodiscard]] std::int64_t num_pages() const noexcept { return counts_.num_pages(); }
  [[nodiscard]] std::int64_t num_free() const noexcept { return counts_.num_free(); }
  [[nodiscard]] PageCounts& counts() noexcept { return counts_; }
  // Of a page in all layers, keys and values.
  [[nodiscard]] static std::size_t page_bytes(const ModelConfig& config, DType dtype,
                                              std::int64_t page);
  [[nodiscard]] std::size_t page_bytes() const;

  // Enqueues a copy of a page, of all layers, to another. Nothing waits.
  void copy(std::int32_t from, std::int32_t to);

 private:
  Array cache_;  // [2 * layers, pages, page, kv_heads, head_dim], so that one copy moves a page
  std::vector<Array> k_, v_;
  std::int64_t page_;
  PageCounts counts_;
};

// The tokens of one text that the cache holds, and their pages, which it holds: alone, or with
// others until it writes to them.
class Sequence {
 public:
  // `far`: its positions are rotated as those of long texts (Runner::border).
  Sequence(std::shared_ptr<KvPages> pages, std::int64_t max_length, bool far = false)
      : pages_(std::move(pages)), max_length_(max_length), far_(far) {}
  ~Sequence() { truncate(0); }
  Sequence(Sequence&& other) noexcept = default;
  Sequence& operator=(Sequence&&) = delete;

  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t max_length() const noexcept { return max_length_; }
  [[nodiscard]] bool far() const noexcept { return far_; }
  [[nodiscard]] std::span<const std::int32_t> table() const noexcept { return table_; }

  // Pages for `length` tokens, of which those from length() on are held by nobody else: a page
  // that is shared is copied. Throws InvalidArgument beyond max_length, Error (kMemory).
  void reserve(std::int64_t length);
  // Pages that reserve(length) would take.
  [[nodiscard]] std::int64_t pages_missing(std::int64_t length) const;
  // Pages with `length` tokens as the beginning of an empty sequence, which becomes their holder
  // in the caller's place.
  void adopt(std::span<const std::int32_t> pages, std::int64_t length);
  // Another sequence with the same tokens and pages.
  [[nodiscard]] Sequence fork() const;
  // For the prefix cache, which may replace a page by one with the same tokens.
  [[nodiscard]] std::span<std::int32_t> mutable_table() noexcept { return table_; }
  // `count` more tokens are in the cache.
  void advance(std::int64_t count) { length_ += count; }
  // Forgets what comes after the first `length` tokens, pages included.
  void truncate(std::int64_t length);
  // Forgets everything: the text is a long one from here on, or a short one.
  void restart(bool far) {
    truncate(0);
    far_ = far;
  }

 private:
  std::shared_ptr<KvPages> pages_;
  std::int64_t max_length_;
  bool far_;
  std::int64_t length_ = 0;
  std::vector<std::int32_t> table_;
};

}  // namespace gpk::llm
