// A text that grows by several tokens a step: a drafter guesses, the model checks. The tokens are
// those of Generation, also when they are sampled: every token is drawn as it would be one by one,
// and guesses only decide how many are computed at once.
#pragma once

#include <memory>

#include "llm/drafter.h"
#include "llm/generation.h"

namespace gpk::llm {

struct SpeculationStats {
  std::int64_t steps = 0;     // of the model, after the prefill
  std::int64_t tokens = 0;    // new ones, the first included
  std::int64_t drafted = 0;   // tokens that were checked
  std::int64_t accepted = 0;  // of them
};

class Speculation {
 public:
  struct Options {
    std::int64_t max_drafts = 4;    // tokens of a branch
    std::int64_t max_branches = 1;  // that are checked in a step
  };

  // Prefills. Throws InvalidArgument as Generation does, and for penalties, which would need the
  // tokens before each guess.
  Speculation(std::shared_ptr<Runner> runner, Tokens prompt, GenerationOptions options,
              std::shared_ptr<Drafter> drafter, const Options& speculation);

  // The next tokens, one or more; empty after a stop token (which is given) or max_new_tokens.
  Tokens next();
  [[nodiscard]] const SpeculationStats& stats() const noexcept { return stats_; }

 private:
  Tokens step();
  std::int64_t room();
  Branches draft(std::int64_t most);
  Branches check(const Branches& branches, std::vector<std::unique_ptr<Sequence>>& sequences);

  std::shared_ptr<Runner> runner_;
  GenerationOptions options_;
  Options speculation_;
  std::shared_ptr<Drafter> drafter_;
  Decoder decoder_;
  std::unique_ptr<Sequence> sequence_;  // all of text_ but the last token
  Tokens text_;
  Tokens first_;  // the prefill's token, until it is given
  std::size_t num_prompt_;
  bool ended_ = false;
  SpeculationStats stats_;
};

}  // namespace gpk::llm
