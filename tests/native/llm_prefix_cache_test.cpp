#include "llm/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "expect.h"

namespace gpk::llm {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kPage = 4;

Tokens range(std::int32_t first, std::int32_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// A text computed into pages of its own, offered to the cache, then given up.
std::vector<std::int32_t> add(PageCounts& counts, PrefixCache& cache, const Tokens& tokens) {
  std::vector<std::int32_t> pages;
  for (std::size_t i = 0; i * kPage < tokens.size(); ++i) pages.push_back(counts.take());
  cache.insert(tokens, pages);
  for (const std::int32_t page : pages) counts.give(page);
  return pages;
}

void give(PageCounts& counts, const PrefixCache::Match& match) {
  for (const std::int32_t page : match.pages) counts.give(page);
}

TEST(PageCounts, TakesSharesAndGives) {
  PageCounts counts(2);
  const std::int32_t a = counts.take();
  counts.share(a);
  counts.give(a);
  EXPECT_EQ(counts.num_free(), 1);
  counts.take();
  EXPECT_EQ(kind_of([&] { counts.take(); }), Error::Kind::kMemory);
  counts.give(a);
  EXPECT_EQ(counts.num_free(), 1);
  EXPECT_EQ(kind_of([&] { counts.give(a); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { counts.share(a); }), Error::Kind::kState);
}

TEST(PageCounts, IdleArePagesThatOnlyTheCacheHolds) {
  PageCounts counts(2);
  const std::int32_t a = counts.take();
  counts.cache(a);
  EXPECT_EQ(counts.num_idle(), 0);
  counts.give(a);
  EXPECT_EQ(counts.num_idle(), 1);
  counts.share(a);
  EXPECT_EQ(counts.num_idle(), 0);
  counts.give(a);
  EXPECT_EQ(kind_of([&] { counts.cache(a); }), Error::Kind::kState);
  counts.uncache(a);
  EXPECT_EQ(counts.num_idle(), 0);
  EXPECT_EQ(counts.num_cached(), 0);
  EXPECT_EQ(counts.num_free(), 2);
}

TEST(PrefixCache, FindsFullPages) {
  PageCounts counts(8);
  PrefixCache cache(counts, kPage);
  const auto pages = add(counts, cache, range(0, 10));  // two full pages
  EXPECT_EQ(counts.num_idle(), 2);
  const PrefixCache::Match match = cache.match(range(0, 20), false);
  EXPECT_EQ(match.pages, (std::vector<std::int32_t>{pages[0], pages[1]}));
  EXPECT_EQ(match.length, 8);
  EXPECT_EQ(counts.num_idle(), 0);
  give(counts, match);
  EXPECT_EQ(cache.match(range(1, 20), false).length, 0);
  EXPECT_EQ(cache.match(range(0, 7), false).length, 4);
  EXPECT_EQ(cache.stats().asked_tokens, 47);
  EXPECT_EQ(cache.stats().hit_tokens, 12);
}

TEST(PrefixCache, FindsABeginningOfAPage) {
  PageCounts counts(8);
  PrefixCache cache(counts, kPage);
  add(counts, cache, {1, 2, 3, 4, 5, 6, 7, 8});
  add(counts, cache, {1, 2, 3, 4, 5, 6, 0, 0});
  const auto match = [&](const Tokens& tokens) {
    const PrefixCache::Match found = cache.match(tokens, true);
    give(counts, found);
    return found.length;
  };
  EXPECT_EQ(match({1, 2, 3, 4, 5, 6, 7, 9}), 7);
  EXPECT_EQ(match({1, 2, 3, 4, 5, 6, 0, 9}), 7);
  EXPECT_EQ(match({1, 2, 3, 4, 5}), 5);
  EXPECT_EQ(match({1, 2, 9}), 2);
  EXPECT_EQ(match({9}), 0);
  EXPECT_EQ(match({}), 0);
}

TEST(PrefixCache, ReplacesPagesThatItHas) {
  PageCounts counts(8);
  PrefixCache cache(counts, kPage);
  const auto first = add(counts, cache, range(0, 8));
  std::vector<std::int32_t> pages{counts.take(), counts.take()};
  const std::int64_t before = counts.num_free();
  cache.insert(range(0, 8), pages);
  EXPECT_EQ(pages, first);
  EXPECT_EQ(counts.num_free(), before + 2);
  EXPECT_EQ(counts.num_idle(), 0);
}

TEST(PrefixCache, EvictsTheLeastRecentlyUsedFirst) {
  PageCounts counts(8);
  PrefixCache cache(counts, kPage);
  add(counts, cache, range(0, 8));
  add(counts, cache, range(100, 8));
  give(counts, cache.match(range(0, 8), false));
  EXPECT_EQ(cache.evict(1), 1);
  EXPECT_EQ(cache.peek(range(100, 8)).pages, 1);  // ends first
  EXPECT_EQ(cache.evict(1), 1);
  EXPECT_EQ(cache.peek(range(100, 8)).pages, 0);
  EXPECT_EQ(cache.peek(range(0, 8)).pages, 2);
  EXPECT_EQ(cache.peek(range(0, 8)).idle, 2);
  EXPECT_EQ(cache.stats().evicted_pages, 2);
}

TEST(PrefixCache, KeepsPagesThatOthersHold) {
  PageCounts counts(8);
  PrefixCache cache(counts, kPage);
  add(counts, cache, range(0, 12));
  const PrefixCache::Match match = cache.match(range(0, 8), false);
  EXPECT_EQ(cache.evict(8), 1);
  EXPECT_EQ(cache.evict(8), 0);
  give(counts, match);
  cache.clear();
  EXPECT_EQ(counts.num_free(), 8);
}

TEST(PrefixCache, GivesEverythingBack) {
  PageCounts counts(8);
  {
    PrefixCache cache(counts, kPage);
    add(counts, cache, range(0, 12));
    add(counts, cache, range(5, 12));
  }
  EXPECT_EQ(counts.num_free(), 8);
  EXPECT_EQ(counts.num_cached(), 0);
}

// Against a list of everything that was added, as long as nothing was evicted.
TEST(PrefixCache, AgreesWithASearchOfAllTexts) {
  std::mt19937 random(5);
  for (unsigned round = 0; round < rounds(20); ++round) {
    PageCounts counts(400);
    PrefixCache cache(counts, kPage);
    std::vector<Tokens> texts;
    for (int i = 0; i < 30; ++i) {
      Tokens text(random() % 24 + 1);
      for (auto& token : text) token = static_cast<std::int32_t>(random() % 3);
      std::int64_t wanted = 0;
      for (const Tokens& other : texts) {
        const auto common = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
        const auto full = static_cast<std::int64_t>(other.size()) / kPage * kPage;
        wanted = std::max(wanted, std::min<std::int64_t>(common.first - text.begin(), full));
      }
      const PrefixCache::Match match = cache.match(text, true);
      EXPECT_EQ(match.length, wanted);
      give(counts, match);
      add(counts, cache, text);
      texts.push_back(text);
    }
    EXPECT_EQ(counts.num_idle(), counts.num_cached());
    EXPECT_EQ(counts.num_free() + counts.num_idle(), 400);
    while (counts.num_cached() > 0) {
      const std::int64_t wanted = std::min<std::int64_t>(7, counts.num_cached());
      EXPECT_EQ(cache.evict(7), wanted);
    }
    EXPECT_EQ(counts.num_free(), 400);
  }
}

}  // namespace
}  // namespace gpk::llm
