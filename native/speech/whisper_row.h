// A text that is being decoded.
#pragma once

#include "speech/whisper_decoder.h"

namespace gpk::speech {

struct WhisperDecoder::Row {
  explicit Row(llm::Sequence empty) : sequence(std::move(empty)) {}

  llm::Sequence sequence;
  const llm::Sequence* source = nullptr;
  std::vector<std::int32_t> prompt;
  std::int64_t limit = 0;  // new tokens
  llm::SamplingOptions sampling;
  llm::TokenHistory history;  // without the last token
  double logprobs = 0.0;      // their sum
  WhisperText text;           // eos included until it is finished

  [[nodiscard]] bool is_live() const {
    return !text.ended && static_cast<std::int64_t>(text.tokens.size()) < limit;
  }
  // The row of a step that reads the newest token.
  [[nodiscard]] llm::DecodeRow next() const {
    llm::DecodeRow row;
    row.token = text.tokens.empty() ? prompt.back() : text.tokens.back();
    row.position = static_cast<std::int64_t>(prompt.size()) +
                   static_cast<std::int64_t>(text.tokens.size()) - 1;
    row.table = sequence.table();
    row.sampling = &sampling;
    row.draws = static_cast<std::int64_t>(text.tokens.size());
    row.source = source;
    row.rules = history;
    return row;
  }
};

}  // namespace gpk::speech
