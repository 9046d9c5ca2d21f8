// Texts that a Whisper's decoder gives for sources: greedy, sampled, or by beam search.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/sampling_options.h"
#include "llm/token_rules.h"

namespace gpk::speech {

struct WhisperTextOptions {
  llm::TokenRules rules;
  llm::SamplingOptions sampling;    // of the first text; others have the next seeds
  std::int64_t max_new_tokens = 0;  // 0: as many as there are positions for
  std::int64_t num_beams = 1;       // more: beam search, without sampling
  double length_penalty = 1.0;      // of beam search
  std::int32_t start_token = -1;    // of a transcript, after which silence is judged; -1: never
  std::int32_t no_speech_token = -1;
};

struct WhisperText {
  std::vector<std::int32_t> tokens;  // without eos
  bool ended = false;                // by eos
  double mean_logprob = 0.0;         // with eos
  double no_speech = 0.0;            // probability
};

}  // namespace gpk::speech
