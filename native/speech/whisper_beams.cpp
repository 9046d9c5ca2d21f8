// Decoding with beams: all beams of all texts are the rows of one step.
#include <algorithm>

#include "core/view.h"
#include "speech/beam_search.h"
#include "speech/whisper_row.h"

namespace gpk::speech {
namespace {

struct Beam {
  llm::Sequence sequence;
  llm::TokenHistory history;  // with the newest token but one
  std::int32_t token;         // the newest
};

// Log-probabilities are those before the rules, which only take tokens away.
BeamSearch::Candidates candidates_of(const llm::TokenScore& score) {
  BeamSearch::Candidates candidates = score.top;
  for (auto& [token, logprob] : candidates) logprob += score.raw_logprob - score.logprob;
  return candidates;
}

}  // namespace

void WhisperDecoder::decode_beams(std::vector<Row>& rows, const WhisperTextOptions& options) {
  llm::Decoder& decoder = decoder_for(options.rules);
  const Array logits = prefill(rows, options);
  llm::SamplingOptions scoring;
  scoring.logprobs = 2 * options.num_beams;
  std::vector<BeamSearch> searches;
  std::vector<std::vector<Beam>> beams(rows.size());
  std::vector<llm::DecodeRow> first;
  for (Row& row : rows) {
    searches.emplace_back(BeamSearch::Options{options.num_beams, row.limit, options.rules.eos,
                                              options.length_penalty});
    first.push_back(row.next());
    first.back().sampling = &scoring;
  }
  decoder.sample(logits, first);
  std::vector<llm::TokenScore> scores = decoder.scores();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BeamSearch::Candidates candidates = candidates_of(scores[i]);
    for (const BeamSearch::Beam& beam : searches[i].step({&candidates, 1}))
      beams[i].push_back({rows[i].sequence.fork(), llm::TokenHistory{0}, beam.token});
    rows[i].sequence.truncate(0);
  }
  for (;;) {
    std::vector<llm::DecodeRow> step;
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (Beam& beam : beams[i]) {
        llm::DecodeRow& row = step.emplace_back();
        beam.sequence.reserve(beam.sequence.length() + 1);
        row.token = beam.token;
        row.position = beam.sequence.length();
        row.table = beam.sequence.table();
        row.sampling = &scoring;
        row.source = rows[i].source;
        row.rules = beam.history;
      }
    if (step.empty()) break;
    decoder.launch(step);
    scores = decoder.scores();
    std::size_t at = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::vector<BeamSearch::Candidates> candidates;
      for (Beam& beam : beams[i]) {
        beam.sequence.advance(1);
        candidates.push_back(candidates_of(scores[at++]));
      }
      if (candidates.empty()) continue;
      std::vector<Beam> next;
      for (const BeamSearch::Beam& beam : searches[i].step(candidates)) {
        const Beam& parent = beams[i][beam.parent];
        next.push_back({parent.sequence.fork(), parent.history.after(parent.token, options.rules),
                        beam.token});
      }
      beams[i].clear();  // what only they held is free before the next step reserves
      for (Beam& beam : next) beams[i].push_back(std::move(beam));
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BeamSearch::Text& best = searches[i].best();
    WhisperText& text = rows[i].text;
    text.tokens = best.tokens;
    text.ended = !text.tokens.empty() && text.tokens.back() == options.rules.eos;
    text.mean_logprob = best.score;
    if (text.ended) text.tokens.pop_back();
  }
}

}  // namespace gpk::speech
