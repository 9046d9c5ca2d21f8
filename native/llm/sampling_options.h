// How the tokens of one text are drawn.
#pragma once

#include <cstdint>

namespace gpk::llm {

struct SamplingOptions {
  double temperature = 0.0;  // 0: the largest logit
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double typical_p = 1.0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  std::int64_t seed = 0;
  std::int64_t logprobs = 0;  // how many of the likeliest tokens are reported with each token

  [[nodiscard]] bool has_penalty() const {
    return repetition_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0;
  }
};

inline constexpr std::int64_t kMaxLogprobs = 64;

// Throws InvalidArgument that names `op` and the option.
void check_sampling(const SamplingOptions& options, const char* op);

}  // namespace gpk::llm
