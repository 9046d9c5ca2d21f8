// A Whisper's decoder: the cross cache of sources, and decoding of texts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "llm/decoder.h"
#include "speech/whisper_text.h"

namespace gpk::speech {

class WhisperDecoder {
 public:
  struct Options {
    std::int64_t max_sources = 1;  // at a time
    std::int64_t max_beams = 1;    // of each
    bool use_graph = true;
    bool persistent = false;  // llm::RunnerOptions::persistent
  };
  // Throws InvalidArgument, OutOfMemory.
  WhisperDecoder(std::shared_ptr<const llm::Model> model, const Options& options);

  [[nodiscard]] const llm::Model& model() const noexcept { return runner_->model(); }
  // How the layers of the newest steps were launched.
  [[nodiscard]] std::string explain() const {
    return decoders_.empty() ? "no step was run\n" : decoders_.back().decoder->explain();
  }
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] llm::Runner& runner() noexcept { return *runner_; }

  // Sources from the states of an encoder, [sources, rows, hidden_size].
  std::vector<llm::Sequence> add(const Array& states) { return runner_->cross()->add(states); }

  // Logits [tokens, vocabulary] after every token of a text.
  Array logits(const llm::Sequence& source, std::span<const std::int32_t> tokens);

  // A text for each source, after its prompt. A text does not depend on the others.
  std::vector<WhisperText> decode(std::span<const llm::Sequence* const> sources,
                                  std::span<const std::vector<std::int32_t>> prompts,
                                  const WhisperTextOptions& options);

 private:
  struct Row;
  [[nodiscard]] llm::Decoder& decoder_for(const llm::TokenRules& rules);
  [[nodiscard]] std::vector<Row> start(std::span<const llm::Sequence* const> sources,
                                       std::span<const std::vector<std::int32_t>> prompts,
                                       const WhisperTextOptions& options);
  Array prefill(std::span<Row> rows, const WhisperTextOptions& options);
  void decode_rows(std::vector<Row>& rows, const WhisperTextOptions& options);
  void decode_beams(std::vector<Row>& rows, const WhisperTextOptions& options);

  struct Cached {
    llm::TokenRules rules;
    std::unique_ptr<llm::Decoder> decoder;
  };
  Options options_;
  std::shared_ptr<llm::Runner> runner_;
  std::vector<Cached> decoders_;  // their graphs are worth keeping
};

}  // namespace gpk::speech
