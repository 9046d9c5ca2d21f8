#include "llm/page_counts.h"

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {

PageCounts::PageCounts(std::int64_t num_pages)
    : holders_(static_cast<std::size_t>(num_pages), 0),
      cached_(static_cast<std::size_t>(num_pages), false) {
  for (std::int64_t i = num_pages; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
}

std::int32_t PageCounts::take() {
  if (free_.empty())
    throw Error(Error::Kind::kMemory,
                cat("kv_pages: all ", num_pages(),
                    " pages are in use; release sequences or sources that are done"));
  const std::int32_t page = free_.back();
  free_.pop_back();
  holders_[at(page)] = 1;
  return page;
}

void PageCounts::share(std::int32_t page) {
  std::int32_t& holders = holders_.at(at(page));
  if (holders == 0) throw Error(cat("kv_pages: page ", page, " is free, expected one in use"));
  if (holders == 1 && cached_[at(page)]) --num_idle_;
  ++holders;
}

void PageCounts::give(std::int32_t page) {
  std::int32_t& holders = holders_.at(at(page));
  if (holders == 0) throw Error(cat("kv_pages: page ", page, " is free, expected one in use"));
  --holders;
  if (holders == 1 && cached_[at(page)]) ++num_idle_;
  if (holders == 0) free_.push_back(page);
}

void PageCounts::cache(std::int32_t page) {
  if (is_cached(page)) throw Error(cat("kv_pages: page ", page, " is in the prefix cache already"));
  share(page);
  cached_[at(page)] = true;
  ++num_cached_;
}

void PageCounts::uncache(std::int32_t page) {
  if (!is_cached(page)) throw Error(cat("kv_pages: page ", page, " is not in the prefix cache"));
  if (holders(page) == 1) --num_idle_;
  cached_[at(page)] = false;
  --num_cached_;
  give(page);
}

}  // namespace gpk::llm
