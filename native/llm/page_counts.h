// Who holds which page: a count of holders of each, the free ones, and those that only the prefix
// cache holds. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace gpk::llm {

class PageCounts {
 public:
  explicit PageCounts(std::int64_t num_pages);

  [[nodiscard]] std::int64_t num_pages() const noexcept {
    return static_cast<std::int64_t>(holders_.size());
  }
  [[nodiscard]] std::int64_t num_free() const noexcept {
    return static_cast<std::int64_t>(free_.size());
  }
  // Pages of the prefix cache, and those of them that nobody else holds.
  [[nodiscard]] std::int64_t num_cached() const noexcept { return num_cached_; }
  [[nodiscard]] std::int64_t num_idle() const noexcept { return num_idle_; }
  [[nodiscard]] std::int32_t holders(std::int32_t page) const { return holders_.at(at(page)); }
  [[nodiscard]] bool is_cached(std::int32_t page) const { return cached_.at(at(page)); }

  // A free page with one holder. Throws Error (kMemory) when there is none.
  std::int32_t take();
  // One holder more, one fewer. A page without holders is free.
  void share(std::int32_t page);
  void give(std::int32_t page);
  // The prefix cache becomes a holder of the page, or is none any more.
  void cache(std::int32_t page);
  void uncache(std::int32_t page);

 private:
  static std::size_t at(std::int32_t page) { return static_cast<std::size_t>(page); }

  std::vector<std::int32_t> holders_;
  std::vector<bool> cached_;
  std::vector<std::int32_t> free_;  // the next one last
  std::int64_t num_cached_ = 0;
  std::int64_t num_idle_ = 0;
};

}  // namespace gpk::llm
