#include "llm/prefix_cache.h"

#include <algorithm>

namespace gpk::llm {

PrefixCache::PrefixCache(PageCounts& counts, std::int64_t page)
    : counts_(counts), page_(static_cast<std::size_t>(page)) {}

PrefixCache::~PrefixCache() {
  std::vector<const Node*> nodes{&root_};
  while (!nodes.empty()) {
    const Node* node = nodes.back();
    nodes.pop_back();
    if (node->page >= 0) counts_.uncache(node->page);
    for (const auto& [block, child] : node->children) nodes.push_back(child.get());
  }
}

// Keys are sorted, so the one with most tokens in common is next to where the tokens would be.
PrefixCache::Step PrefixCache::next(const Node& from, std::span<const std::int32_t> tokens) const {
  const std::span<const std::int32_t> head = tokens.first(std::min(page_, tokens.size()));
  if (head.empty() || from.children.empty()) return {};
  Step best;
  const auto consider = [&](const auto& entry) {
    const Block& block = entry.first;
    const auto common = std::mismatch(head.begin(), head.end(), block.begin()).first - head.begin();
    if (common > best.length) best = {entry.second.get(), common};
  };
  const auto after = from.children.lower_bound(Block(head.begin(), head.end()));
  if (after != from.children.end()) consider(*after);
  if (after != from.children.begin()) consider(*std::prev(after));
  return best;
}

std::vector<PrefixCache::Step> PrefixCache::path(std::span<const std::int32_t> tokens,
                                                 bool partly) const {
  std::vector<Step> steps;
  for (const Node* node = &root_;;) {
    const Step step = next(*node, tokens);
    const bool in_full = static_cast<std::size_t>(step.length) == page_;
    if (step.node != nullptr && (in_full || partly)) steps.push_back(step);
    if (!in_full) return steps;
    node = step.node;
    tokens = tokens.subspan(page_);
  }
}

void PrefixCache::touch(Node& node) {
  if (leaves_.erase({node.used, &node}) > 0) leaves_.insert({time_, &node});
  node.used = time_;
}

PrefixCache::Match PrefixCache::match(std::span<const std::int32_t> tokens, bool partly) {
  ++time_;
  Match match;
  for (const Step& step : path(tokens, partly)) {
    counts_.share(step.node->page);
    match.pages.push_back(step.node->page);
    match.length += step.length;
    touch(*step.node);
  }
  stats_.asked_tokens += static_cast<std::int64_t>(tokens.size());
  stats_.hit_tokens += match.length;
  return match;
}

PrefixCache::Peek PrefixCache::peek(std::span<const std::int32_t> tokens) const {
  Peek peek;
  for (const Step& step : path(tokens, false)) {
    ++peek.pages;
    if (counts_.holders(step.node->page) == 1) ++peek.idle;
  }
  return peek;
}

void PrefixCache::insert(std::span<const std::int32_t> tokens, std::span<std::int32_t> pages) {
  ++time_;
  Node* node = &root_;
  const std::size_t full = std::min(tokens.size() / page_, pages.size());
  for (std::size_t i = 0; i < full; ++i) {
    const auto block = tokens.subspan(i * page_, page_);
    auto [entry, is_new] = node->children.try_emplace(Block(block.begin(), block.end()));
    if (is_new) {
      entry->second = std::make_unique<Node>();
      Node& child = *entry->second;
      child.parent = node;
      child.block = &entry->first;
      child.page = pages[i];
      child.used = time_;
      counts_.cache(pages[i]);
      leaves_.erase({node->used, node});
      leaves_.insert({time_, &child});
    } else if (entry->second->page != pages[i]) {
      counts_.share(entry->second->page);
      counts_.give(pages[i]);
      pages[i] = entry->second->page;
    }
    node = entry->second.get();
    touch(*node);
  }
}

std::int64_t PrefixCache::evict(std::int64_t count) {
  std::int64_t evicted = 0;
  for (auto leaf = leaves_.begin(); leaf != leaves_.end() && evicted < count;) {
    Node* node = leaf->second;
    if (counts_.holders(node->page) > 1) {
      ++leaf;
      continue;
    }
    Node* parent = node->parent;
    leaf = leaves_.erase(leaf);
    counts_.uncache(node->page);
    parent->children.erase(parent->children.find(*node->block));
    ++evicted;
    if (parent == &root_ || !parent->children.empty()) continue;
    const auto added = leaves_.insert({parent->used, parent}).first;
    if (leaf == leaves_.end() || *added < *leaf) leaf = added;  // older than what comes next
  }
  stats_.evicted_pages += evicted;
  return evicted;
}

}  // namespace gpk::llm
