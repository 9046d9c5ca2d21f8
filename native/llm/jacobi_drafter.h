// Guesses by fixed-point iteration: what the model said about the last guesses is the next guess.
#pragma once

#include <deque>
#include <map>

#include "llm/drafter.h"

namespace gpk::llm {

// One branch, whose wrong part is improved step by step.
class JacobiDrafter : public Drafter {
 public:
  Branches draft(const Context& context) override;
  void observe(const Branches& branches, const Branches& after, std::size_t kept,
               std::size_t accepted) override;

 private:
  Tokens guess_;
};

// Lookahead decoding: a window of such guesses is iterated beside the text; the n-grams on its
// diagonals, which the model has said token by token, are what is tried when their first token
// comes up.
class LookaheadDrafter : public Drafter {
 public:
  // Throws InvalidArgument for a window below 2, n-grams below 2, and less than 1 guess.
  LookaheadDrafter(std::int64_t window, std::int64_t ngram, std::int64_t guesses);
  Branches draft(const Context& context) override;
  void observe(const Branches& branches, const Branches& after, std::size_t kept,
               std::size_t accepted) override;

 private:
  // Guesses of one iteration.
  struct Level {
    std::int64_t first = 0;  // position in the text of the first one
    Tokens tokens;
  };
  void collect();

  std::size_t window_, ngram_, guesses_;
  std::int64_t length_ = 0;                          // of the text
  std::deque<Level> levels_;                         // the newest last
  std::map<std::int32_t, std::deque<Tokens>> pool_;  // by the token before, the newest first
};

}  // namespace gpk::llm
