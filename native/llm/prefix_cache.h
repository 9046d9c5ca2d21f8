// Pages by the tokens they hold: a radix tree, an edge of it one full page of a prompt. Pages that
// nobody else holds are given back, the least recently used first. Pure: page ids and tokens only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "llm/page_counts.h"

namespace gpk::llm {

struct PrefixStats {
  std::int64_t asked_tokens = 0;  // of all prompts that were looked up
  std::int64_t hit_tokens = 0;    // of them, found
  std::int64_t evicted_pages = 0;
};

class PrefixCache {
 public:
  // `counts` outlives the cache.
  PrefixCache(PageCounts& counts, std::int64_t page);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest beginning of `tokens` that is there. With `partly` the last page may match in part:
  // its holder copies it before writing. The caller is a holder of all pages from here on.
  struct Match {
    std::vector<std::int32_t> pages;
    std::int64_t length = 0;  // tokens
  };
  Match match(std::span<const std::int32_t> tokens, bool partly);
  // The pages that match in full; nobody becomes their holder, and it counts nowhere.
  struct Peek {
    std::int64_t pages = 0;
    std::int64_t idle = 0;  // of them, held by the cache alone
  };
  [[nodiscard]] Peek peek(std::span<const std::int32_t> tokens) const;

  // `pages` hold `tokens`; the full ones stay. Where the cache has such a page already, the one in
  // `pages` is given back and replaced by it.
  void insert(std::span<const std::int32_t> tokens, std::span<std::int32_t> pages);

  // Gives back up to `count` pages that nobody else holds; how many there were.
  std::int64_t evict(std::int64_t count);
  // All of them.
  void clear() { evict(counts_.num_pages()); }

  [[nodiscard]] const PrefixStats& stats() const noexcept { return stats_; }

 private:
  using Block = std::vector<std::int32_t>;
  struct Node {
    std::map<Block, std::unique_ptr<Node>> children;
    Node* parent = nullptr;
    const Block* block = nullptr;  // its key in the parent
    std::int32_t page = -1;
    std::uint64_t used = 0;
  };
  using Leaf = std::pair<std::uint64_t, Node*>;  // by time of use
  struct Step {
    Node* node = nullptr;
    std::int64_t length = 0;  // tokens in common, up to a page
  };

  [[nodiscard]] Step next(const Node& from, std::span<const std::int32_t> tokens) const;
  [[nodiscard]] std::vector<Step> path(std::span<const std::int32_t> tokens, bool partly) const;
  void touch(Node& node);

  PageCounts& counts_;
  std::size_t page_;
  Node root_;
  std::set<Leaf> leaves_;
  std::uint64_t time_ = 0;
  PrefixStats stats_;
};

}  // namespace gpk::llm
