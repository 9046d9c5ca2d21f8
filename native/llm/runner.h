// Forward passes of a model over chunks of sequences, with memory for them and for their cache.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "llm/layer_chain.h"
#include "llm/slot_memory.h"

namespace gpk::llm {

struct RunnerOptions {
  std::int64_t max_tokens = 512;       // of one pass
  std::int64_t max_sequences = 1;      // of one pass
  std::int64_t max_length = 0;         // tokens of a sequence; 0: the model's, up to 4096
  std::int64_t num_pages = 0;          // 0: for max_sequences of max_length
  std::int64_t page = 64;              // tokens
  std::int64_t max_sources = 0;        // of a decoder beside an encoder; 0: max_sequences
  std::optional<DType> kv_dtype = {};  // of keys and values: float8_e4m3fn; none: the model's
  bool persistent = false;             // decode steps in one kernel where they can be chained
};

// The dtype of a model's keys and values in the cache. Throws InvalidArgument for one it cannot
// have.
DType cache_dtype(const Model& model, std::optional<DType> kv_dtype);

class Runner {
 public:
  // Throws InvalidArgument for options that the model cannot have, OutOfMemory.
  Runner(std::shared_ptr<const Model> model, const RunnerOptions& options);

  [[nodiscard]] const Model& model() const noexcept { return *model_; }
  [[nodiscard]] const RunnerOptions& options() const noexcept { return options_; }
  [[nodiscard]] const KvPages& pages() const noexcept { return *pages_; }
  [[nodiscard]] const std::shared_ptr<KvPages>& shared_pages() const noexcept { return pages_; }
  // Models with LongRoPE rotate texts of more tokens by other frequencies, from their first token
  // on; 0: there is no such border.
  [[nodiscard]] std::int64_t border() const noexcept { return border_; }
  [[nodiscard]] bool is_far(std::int64_t length) const noexcept {
    return border_ > 0 && length > border_;
  }
  // Throws InvalidArgument for a text that is rotated as a short one and has more tokens.
  void check_border(bool far, std::int64_t length, const char* op) const;
  // For a text that begins with so many tokens.
  [[nodiscard]] Sequence make_sequence(std::int64_t length = 0) const {
    return {pages_, options_.max_length, is_far(length)};
  }

  // New tokens of a sequence, after those that it has.
  struct Chunk {
    Sequence& sequence;
    std::span<const std::int32_t> tokens;
    std::int64_t num_rows = 1;         // logits of so many tokens, the last ones
    const Sequence* source = nullptr;  // of the cross cache, for a decoder beside an encoder
  };
  // Logits [rows, vocabulary] in the order of the chunks. They are overwritten by the next pass.
  // Throws InvalidArgument for too many or no tokens, for ids that are not in the vocabulary and
  // for a short text that would cross the border; sequences are unchanged then.
  Array forward(std::span<const Chunk> chunks);

  // The cross cache; none where the model has no cross attention.
  [[nodiscard]] CrossCache* cross() const noexcept { return cross_.get(); }
  // Sees the queries of every layer's cross attention until it is set to nothing.
  void on_cross_query(std::function<void(std::int64_t, const Array&)> function) {
    on_cross_query_ = std::move(function);
  }

  // Memory for the logits of so many rows; passes that need more make it larger.
  void reserve_rows(std::int64_t rows);
  // A pass whose input is on the device already: enqueued without a check, and without a wait.
  // `chain`: of passes of decoding with this input's arrays.
  Array enqueue(const PassInput& input, LayerChain* chain = nullptr);

 private:
  struct HostInput;
  HostInput gather(std::span<const Chunk> chunks);
  PassInput upload(const HostInput& host);
  std::array<std::optional<Array>, kNumSlots> slots_of(std::int64_t tokens, std::int64_t rows);

  std::shared_ptr<const Model> model_;
  RunnerOptions options_;
  std::shared_ptr<KvPages> pages_;
  SlotMemory memory_;
  Array activations_;  // [max_tokens * width]
  std::optional<Array> selected_, logits_;
  std::int64_t border_ = 0;
  std::optional<RopeTable> rope_, local_rope_;
  std::unique_ptr<CrossCache> cross_;
  std::function<void(std::int64_t, const Array&)> on_cross_query_;
};

}  // namespace gpk::llm
