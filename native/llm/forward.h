// Executes the steps of a plan: each is one or a few ops over slots, weights and the cache.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>

#include "llm/cross_cache.h"
#include "llm/kv_pages.h"
#include "llm/model.h"
#include "llm/rope_table.h"

namespace gpk::llm {

// The input of one forward pass, on the device. Tokens of a sequence are neighbours, and the
// sequence's newest ones. What the plan does not read may be left out: an encoder has features,
// positions and starts.
struct PassInput {
  std::int64_t num_tokens = 0;
  std::int64_t num_sequences = 0;
  std::int64_t longest = 0;     // most tokens of one sequence
  bool decodes = false;         // one token of each sequence; bits agree with passes of that kind
  std::int64_t num_layers = 0;  // that are run; 0: all
  std::optional<Array> tokens = {};         // int32 [num_tokens]
  std::optional<Array> positions = {};      // int32 [num_tokens]
  std::optional<Array> slots = {};          // int32 [num_tokens]: where in the cache
  std::optional<Array> starts = {};         // int32 [num_sequences + 1]: first token of each
  std::optional<Array> lengths = {};        // int32 [num_sequences]: with the new tokens
  std::optional<Array> tables = {};         // int32 [num_sequences, blocks]
  std::optional<Array> rows = {};           // int32 [num_rows]: tokens whose logits are wanted
  std::optional<Array> cross_lengths = {};  // int32 [num_sequences]: rows of their sources
  std::optional<Array> cross_tables = {};   // int32 [num_sequences, blocks of the cross cache]
  std::optional<Array> features = {};       // [num_sequences, num_mels, frames]
  std::optional<Array> rope_rows = {};      // int32 [num_tokens]; none: the positions
};

struct PassState {
  const Model& model;
  const KvPages* cache = nullptr;         // none: an encoder
  const RopeTable* rope = nullptr;        // none: the model has learned positions
  const RopeTable* local_rope = nullptr;  // of layers with a window
  std::array<std::optional<Array>, kNumSlots> slots = {};
  const CrossCache* cross = nullptr;  // of a decoder beside an encoder
  // Sees the queries [tokens, heads, dim] of every layer's cross attention.
  std::function<void(std::int64_t layer, const Array& queries)> on_cross_query = {};
};

// Enqueues steps of a plan. Nothing waits.
void run_steps(std::span<const Step> steps, const PassInput& input, PassState& state);
// The model's plan, without the layers from input.num_layers on.
void run_steps(const PassInput& input, PassState& state);

}  // namespace gpk::llm
