// Texts that grow by a token a step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "llm/decoder.h"

namespace gpk::llm {

struct GenerationOptions {
  std::int64_t max_new_tokens = 20;
  SamplingOptions sampling;  // of every text, which gets the tokens that it gets alone
  std::vector<std::int32_t> stop_tokens;
  bool use_graph = true;
};

// Throws InvalidArgument that names the option.
GenerationOptions checked(GenerationOptions options);

// Runs a prompt through the model, in chunks of the runner's max_tokens, after what the sequence
// has. Returns the logits [1, vocabulary] after it, which the next pass overwrites. Throws
// InvalidArgument for an empty or too long prompt and for ids outside of the vocabulary.
Array prefill(Runner& runner, Sequence& sequence, std::span<const std::int32_t> prompt);

class Generation {
 public:
  // Prefills. `prefix`: tokens that the first prompt begins with, all but two of it at most, as
  // prompt_pages() gave them. Throws InvalidArgument for bad options, and as prefill().
  Generation(std::shared_ptr<Runner> runner, std::vector<std::vector<std::int32_t>> prompts,
             GenerationOptions options, const Sequence* prefix = nullptr);

  // The next token of each text; kEnded for texts that have ended. Empty when all have: at a stop
  // token (which is given), or after max_new_tokens. Waits for the device, which is a step ahead.
  std::vector<std::int32_t> next();
  static constexpr std::int32_t kEnded = -1;

  // The full pages of the first prompt, without its last two tokens. They are bit for bit what any
  // text that begins with these tokens would compute. Empty for models with a border.
  [[nodiscard]] Sequence prompt_pages() const;

 private:
  [[nodiscard]] std::vector<DecodeRow> rows_after(std::int64_t draws) const;
  void launch();
  bool cross_border();

  std::shared_ptr<Runner> runner_;
  GenerationOptions options_;
  Decoder decoder_;
  std::vector<Sequence> sequences_;
  std::vector<std::vector<std::int32_t>> prompts_;
  std::vector<std::vector<std::int32_t>> texts_;  // after them, as far as they were given
  std::vector<bool> ended_;
  std::vector<std::int32_t> first_;  // tokens
  std::int64_t num_given_ = 0;       // tokens of each text
};

// All of it: the new tokens of each text.
std::vector<std::vector<std::int32_t>> generate(
    const std::shared_ptr<Runner>& runner, const std::vector<std::vector<std::int32_t>>& prompts,
    const GenerationOptions& options);

}  // namespace gpk::llm
