// Decode steps. A row is one token of a sequence: a step writes its keys and values to the cache
// and samples the token after it. A row's result does not depend on the other rows, so a sequence
// gets the same tokens alone, in a batch, and with several of its tokens in one step.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/event.h"
#include "core/graph.h"
#include "core/memory.h"
#include "llm/runner.h"
#include "llm/sampling_options.h"
#include "llm/token_rules.h"
#include "ops/sampling/logprobs.h"
#include "ops/sampling/sample.h"

namespace gpk::llm {

struct DecodeRow {
  std::int32_t token = 0;
  std::int64_t position = 0;                  // of the token; those before it are in the cache
  std::span<const std::int32_t> table;        // pages up to the position
  const SamplingOptions* sampling = nullptr;  // none: the largest logit
  std::int64_t draws = 0;                     // tokens drawn from the seed so far
  std::span<const std::int32_t> history;      // tokens before this one, for penalties
  std::span<const std::uint32_t> mask;        // a bit for each token that may be drawn; empty: all
  const Sequence* source = nullptr;           // of the cross cache, beside an encoder
  TokenHistory rules;                         // without `token`, where the decoder has rules
  bool far = false;                           // of the sequence
};

struct TokenScore {
  float logprob = 0.0f;                             // after the rules
  float raw_logprob = 0.0f;                         // before them
  std::vector<std::pair<std::int32_t, float>> top;  // the likeliest tokens, largest first
};

class Decoder {
 public:
  struct Options {
    std::int64_t max_rows = 1;
    bool use_graph = true;        // one CUDA graph for each bucket of rows, from its second step on
    std::int64_t num_layers = 0;  // that are run before the head; 0: all
    std::optional<TokenRules> rules = {};
    bool keeps_logprobs = false;  // of every token that was sampled
  };

  // Throws InvalidArgument for more rows than the runner's max_tokens.
  Decoder(std::shared_ptr<Runner> runner, const Options& options);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Starts a step. Throws InvalidArgument for too many rows, ids outside of the vocabulary and
  // positions outside of the table.
  void launch(std::span<const DecodeRow> rows);
  // Starts the next step of the same rows: of the tokens that were sampled, one position further.
  // The tables must cover it; a mask is used again.
  void launch();
  // Number of launches so far.
  [[nodiscard]] std::int64_t num_launches() const noexcept { return num_launches_; }

  // What the rows of the newest launch sampled, or those of the one before. Waits for it.
  std::span<const std::int32_t> tokens(std::int64_t back = 0);
  // Their log-probabilities, where they are kept.
  std::span<const float> logprobs(std::int64_t back = 0);
  // Of the newest launch, where a row asked for them. Waits.
  std::vector<TokenScore> scores();

  // How the layers of the newest step were launched.
  [[nodiscard]] std::string explain() const;

  // The tokens after rows whose logits [rows, vocabulary] are known, as after a prefill. Waits.
  std::span<const std::int32_t> sample(const Array& logits, std::span<const DecodeRow> rows);

 private:
  // What decides which ops a step consists of.
  struct Shape {
    std::int64_t rows = 0;  // padded
    std::int64_t logprobs = 0;
    bool sampled = false, penalized = false, masked = false;
    auto operator<=>(const Shape&) const = default;
  };
  struct Step {
    std::unique_ptr<Graph> graph;
    std::optional<ops::TokenLogprobs> logprobs;
    std::optional<Array> raw;
    bool was_run = false;
  };
  struct Fields;

  void load(std::span<const DecodeRow> rows, bool pads);
  void load_counts(std::span<const DecodeRow> rows);
  void load_masks(std::span<const DecodeRow> rows);
  [[nodiscard]] Array field(std::int64_t first, DType dtype) const;
  [[nodiscard]] PassInput make_input() const;
  void load_rules();
  void load_cross(std::span<const DecodeRow> rows);
  Array apply_rules(const Array& logits) const;
  void draw(const Array& logits, Step& step) const;
  void enqueue(Step& step);
  void run();
  void fetch(const Array& tokens);
  std::size_t ring_slot(std::int64_t back);

  static constexpr std::int64_t kRing = 2;

  std::shared_ptr<Runner> runner_;
  Options options_;
  std::int64_t blocks_, cross_blocks_;
  std::vector<std::uint32_t> host_;  // as state_
  Array state_;                      // everything that differs from row to row, in one block
  Array iota_;                       // int32 0, 1, ...
  Array slots_;                      // int32 [max_rows]: where keys and values go
  std::optional<Array> counts_, masks_;
  std::optional<Array> suppressed_, begin_suppressed_;  // bits, by the rules
  std::optional<Array> allowed_;                        // logits after them
  Shape shape_;
  std::int64_t num_rows_ = 0;
  std::map<Shape, Step> steps_;
  std::map<std::int64_t, LayerChain> chains_;  // by rows
  std::optional<ops::TokenLogprobs> scores_;   // of the newest tokens
  std::optional<Array> raw_scores_;
  std::int64_t num_launches_ = 0;
  std::shared_ptr<PinnedMemory> ring_;
  std::array<std::shared_ptr<Event>, kRing> fetched_;
  std::array<std::int64_t, kRing> fetched_rows_{};
};

}  // namespace gpk::llm
