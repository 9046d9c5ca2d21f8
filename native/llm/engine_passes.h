// What an engine runs on a device: passes over prompts and decode steps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "llm/decoder.h"

namespace gpk::llm {

struct EngineLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_length = 0;     // tokens of a text
  std::int64_t max_tokens = 0;     // of one prefill pass
  std::int64_t max_sequences = 0;  // of one prefill pass
  std::int64_t max_rows = 0;       // of one decode step
  std::int64_t border = 0;         // Runner::border()
};

// An interface, so that engines are tested without a model.
class EnginePasses {
 public:
  virtual ~EnginePasses() = default;
  [[nodiscard]] virtual EngineLimits limits() const = 0;
  [[nodiscard]] virtual Device device() const = 0;

  // Runs chunks of prompts; the first rows.size() of them are the ends of theirs, and `rows` say
  // how the tokens after them are drawn. Waits for these.
  virtual std::vector<std::int32_t> prefill(std::span<const Runner::Chunk> chunks,
                                            std::span<const DecodeRow> rows) = 0;
  // Starts a decode step: of these rows, or the next one of the same.
  virtual void decode(std::span<const DecodeRow> rows) = 0;
  virtual void decode_again() = 0;
  // Tokens of the newest step, or of `back` steps before. Waits.
  virtual std::span<const std::int32_t> tokens(std::int64_t back) = 0;
  // Of the newest tokens, those of a prefill pass included. Waits.
  virtual std::vector<TokenScore> scores() = 0;
};

// Of a model on a device. Waits for it, so that any stream may be used from here on.
std::unique_ptr<EnginePasses> make_engine_passes(std::shared_ptr<Runner> runner,
                                                 std::int64_t max_rows, bool use_graph);

}  // namespace gpk::llm
