// Executes the steps of a plan: each is one or a few ops over slots, weights and the cache.
#pragma once

#include <array>
#include <optional>

#include "llm/kv_pages.h"
#include "llm/model.h"
#include "llm/rope_table.h"

namespace gpk::llm {

// The input of one forward pass, on the device. Tokens of a sequence are neighbours, and the
// sequence's newest ones.
struct PassInput {
  std::int64_t num_tokens = 0;
  std::int64_t num_sequences = 0;
  std::int64_t longest = 0;     // most tokens of one sequence
  bool decodes = false;         // one token of each sequence; bits agree with passes of that kind
  std::int64_t num_layers = 0;  // that are run; 0: all
  Array tokens;                 // int32 [num_tokens]
  Array positions;              // int32 [num_tokens]
  Array slots;                  // int32 [num_tokens]: where in the cache
  Array starts;                 // int32 [num_sequences + 1]: first token of each
  Array lengths;                // int32 [num_sequences]: with the new tokens
  Array tables;                 // int32 [num_sequences, blocks]
  Array rows;                   // int32 [num_rows]: tokens whose logits are wanted
};

struct PassState {
  const Model& model;
  const KvPages& cache;
  const RopeTable* rope = nullptr;        // none: the model has learned positions
  const RopeTable* local_rope = nullptr;  // of layers with a window
  std::array<std::optional<Array>, kNumSlots> slots;
};

// Enqueues the model's plan, without the layers from input.num_layers on. Nothing waits.
void run_steps(const PassInput& input, PassState& state);

}  // namespace gpk::llm
