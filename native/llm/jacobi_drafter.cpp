#include "llm/jacobi_drafter.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {

Branches JacobiDrafter::draft(const Context& context) {
  guess_.resize(static_cast<std::size_t>(context.most),
                guess_.empty() ? context.text.back() : guess_.back());
  return {guess_};
}

void JacobiDrafter::observe(const Branches& /*branches*/, const Branches& after,
                            std::size_t /*kept*/, std::size_t accepted) {
  const Tokens& said = after.front();
  guess_.assign(said.begin() + static_cast<std::ptrdiff_t>(accepted) + 1, said.end());
}

LookaheadDrafter::LookaheadDrafter(std::int64_t window, std::int64_t ngram, std::int64_t guesses)
    : window_(static_cast<std::size_t>(window)),
      ngram_(static_cast<std::size_t>(ngram)),
      guesses_(static_cast<std::size_t>(guesses)) {
  const auto check = [](const char* what, std::int64_t value, std::int64_t least) {
    if (value < least)
      throw InvalidArgument(
          cat("lookahead: ", what, " is ", value, ", expected ", least, " or more"));
  };
  check("window", window, 2);
  check("ngram", ngram, 2);
  check("guesses", guesses, 1);
}

// The window first: where it is right it is as good as a guess from the pool.
Branches LookaheadDrafter::draft(const Context& context) {
  const auto most = static_cast<std::size_t>(context.most);
  length_ = static_cast<std::int64_t>(context.text.size());
  Tokens window = levels_.empty() ? Tokens{} : levels_.back().tokens;
  // New places begin as tokens of the text.
  while (window.size() < window_)
    window.push_back(context.text[window.size() % context.text.size()]);
  if (levels_.empty()) levels_.emplace_back();
  levels_.back() = {length_, window};
  window.resize(std::min(most, window_));
  Branches branches{window};
  if (const auto found = pool_.find(context.text.back()); found != pool_.end())
    for (const Tokens& guess : found->second)
      branches.emplace_back(
          guess.begin(), guess.begin() + static_cast<std::ptrdiff_t>(std::min(most, guess.size())));
  return branches;
}

void LookaheadDrafter::observe(const Branches& /*branches*/, const Branches& after,
                               std::size_t /*kept*/, std::size_t accepted) {
  // after.front()[i] is at position length_ + i.
  levels_.push_back({length_, after.front()});
  if (levels_.size() > ngram_) levels_.pop_front();
  collect();
  Level& newest = levels_.back();
  const auto passed =
      std::min(newest.tokens.size(), accepted + 1);  // the text has these positions now
  newest.tokens.erase(newest.tokens.begin(),
                      newest.tokens.begin() + static_cast<std::ptrdiff_t>(passed));
  newest.first += static_cast<std::int64_t>(passed);
}

// The n-grams that end in the newest level: each token was said after the one before it, which is
// in the level before.
void LookaheadDrafter::collect() {
  if (levels_.size() < ngram_) return;
  const Level& newest = levels_.back();
  for (std::size_t i = 0; i < newest.tokens.size(); ++i) {
    const std::int64_t last = newest.first + static_cast<std::int64_t>(i);
    Tokens ngram;
    for (std::size_t l = 0; l < ngram_; ++l) {
      const Level& level = levels_[levels_.size() - ngram_ + l];
      const std::int64_t at = last - static_cast<std::int64_t>(ngram_ - 1 - l) - level.first;
      if (at < 0 || at >= static_cast<std::int64_t>(level.tokens.size())) break;
      ngram.push_back(level.tokens[static_cast<std::size_t>(at)]);
    }
    if (ngram.size() < ngram_) continue;
    std::deque<Tokens>& known = pool_[ngram.front()];
    ngram.erase(ngram.begin());
    std::erase(known, ngram);
    known.push_front(std::move(ngram));
    if (known.size() > guesses_) known.pop_back();
  }
}

}  // namespace gpk::llm
