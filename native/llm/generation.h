// Texts that grow by a token a step. Tokens, positions and lengths stay on the device; a step of
// the whole batch is one CUDA graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/graph.h"
#include "llm/runner.h"
#include "ops/sampling/sample.h"

namespace gpk::llm {

struct SamplingOptions {
  double temperature = 0.0;  // 0: the largest logit
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  std::int64_t seed = 0;  // of the first text; others follow
};

struct GenerationOptions {
  std::int64_t max_new_tokens = 20;
  SamplingOptions sampling;
  std::vector<std::int32_t> stop_tokens;
  bool use_graph = true;
};

class Generation {
 public:
  // Runs the prompts through the model, in chunks of the runner's max_tokens. Throws
  // InvalidArgument for an empty or too long prompt and for ids outside of the vocabulary.
  Generation(std::shared_ptr<Runner> runner, std::vector<std::vector<std::int32_t>> prompts,
             GenerationOptions options);

  // The next token of each text; kEnded for texts that have ended. Empty when all have: at a stop
  // token (which is given), or after max_new_tokens. Waits for the device.
  std::vector<std::int32_t> next();
  static constexpr std::int32_t kEnded = -1;

 private:
  Array prefill(const std::vector<std::vector<std::int32_t>>& prompts);  // first tokens
  [[nodiscard]] PassInput first_input(const Array& tokens) const;
  void enqueue_step();
  void step();

  std::shared_ptr<Runner> runner_;
  GenerationOptions options_;
  std::vector<Sequence> sequences_;
  std::vector<bool> ended_;
  std::int64_t num_steps_ = 0;
  ops::SampleFilter filter_;
  ops::SampleSource source_;
  std::optional<PassInput> input_;  // one token of each sequence
  std::unique_ptr<Graph> graph_;
};

// All of it: the new tokens of each text.
std::vector<std::vector<std::int32_t>> generate(
    const std::shared_ptr<Runner>& runner, const std::vector<std::vector<std::int32_t>>& prompts,
    const GenerationOptions& options);

}  // namespace gpk::llm
