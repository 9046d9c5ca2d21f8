// The numbers of one model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/model_spec.h"
#include "ops/nn/rope_scaling.h"

namespace gpk::llm {

struct RopeConfig {
  double theta = 10000.0;
  std::int64_t dim = 0;  // elements of a head that are rotated
  ops::RopeScaling scaling;
};

struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t max_positions = 0;
  double norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  RopeConfig rope;
  RopeConfig local_rope;           // of layers with a window
  std::int64_t window = 0;         // keys that a query of such a layer sees
  std::vector<bool> has_window;    // by layer
  double attention_softcap = 0.0;  // 0: none
  double final_softcap = 0.0;
  double attention_scale = 0.0;  // 0: 1 / sqrt(head_dim)
  double embedding_scale = 1.0;
  std::int64_t source_positions = 0;  // of an encoder: rows; of a decoder beside one: its rows
  std::int64_t num_mels = 0;          // of an encoder: channels of the spectrogram
  std::int64_t num_experts = 0;       // 0: one MLP
  std::int64_t experts_per_token = 0;
  bool renormalize_experts = true;
  bool exact_gelu = false;  // the erf form, where the family has the tanh form of GELU

  [[nodiscard]] std::int64_t q_size() const { return num_heads * head_dim; }
  [[nodiscard]] std::int64_t kv_size() const { return num_kv_heads * head_dim; }
};

// Throws InvalidArgument, naming the field, for numbers that no model can have.
void check_config(const ModelConfig& config);

}  // namespace gpk::llm
