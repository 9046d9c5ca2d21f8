// Decoding without beams: the device is kept a step ahead of the host.
#include <algorithm>
#include <limits>

#include "speech/whisper_row.h"

namespace gpk::speech {

void WhisperDecoder::decode_rows(std::vector<Row>& rows, const WhisperTextOptions& options) {
  llm::Decoder& decoder = decoder_for(options.rules);
  const Array logits = prefill(rows, options);
  std::vector<std::size_t> batch;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    batch.push_back(i);
    // The last token is never read back.
    rows[i].sequence.reserve(static_cast<std::int64_t>(rows[i].prompt.size()) + rows[i].limit - 1);
  }
  std::size_t num_live = 0;
  const auto take = [&](std::int64_t back) {
    const std::span<const std::int32_t> tokens = decoder.tokens(back);
    const std::span<const float> logprobs = decoder.logprobs(back);
    num_live = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Row& row = rows[batch[i]];
      if (!row.is_live()) continue;
      row.history = row.text.tokens.empty()
                        ? llm::TokenHistory{0}
                        : row.history.after(row.text.tokens.back(), options.rules);
      row.logprobs += logprobs[i];
      row.text.tokens.push_back(tokens[i]);
      row.text.ended = tokens[i] == options.rules.eos || tokens[i] < 0;
      num_live += row.is_live() ? 1 : 0;
    }
  };
  const auto decode_rows_of = [&] {
    std::vector<llm::DecodeRow> result;
    for (const std::size_t i : batch) result.push_back(rows[i].next());
    return result;
  };
  decoder.sample(logits, decode_rows_of());
  take(0);
  while (num_live > 0) {
    std::erase_if(batch, [&](std::size_t i) { return !rows[i].is_live(); });
    // Steps until the first of them has no room.
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t i : batch)
      most = std::min(most, rows[i].limit - static_cast<std::int64_t>(rows[i].text.tokens.size()));
    decoder.launch(decode_rows_of());
    for (std::int64_t launched = 1, taken = 0; taken < launched; ++taken) {
      // Few live rows are decoded on their own, as soon as nothing is under way.
      if (launched < most && 2 * num_live > batch.size()) {
        decoder.launch();
        ++launched;
      }
      take(launched - taken - 1);
      if (num_live == 0) break;
    }
  }
  for (Row& row : rows) {
    row.text.mean_logprob = row.logprobs / static_cast<double>(row.text.tokens.size());
    if (row.text.ended) row.text.tokens.pop_back();
  }
}

}  // namespace gpk::speech
