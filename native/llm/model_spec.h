// A family of language models as data: the names of its tensors, and how its layers differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::llm {

enum class NormKind : std::uint8_t { kRms, kLayer };
enum class MlpActivation : std::uint8_t { kSilu, kGelu, kGeluErf };  // kGelu: the tanh form

// Attention to the states of an encoder, in every layer of a decoder.
struct CrossTensors {
  std::string norm, norm_bias;
  std::string q_proj, q_bias;
  std::string k_proj, v_proj, v_bias;
  std::string o_proj, o_bias;
};

// Two convolutions over time ahead of an encoder's layers; the second halves the frames.
struct ConvTensors {
  std::string conv1, conv1_bias;
  std::string conv2, conv2_bias;
};

struct ModelSpec {
  std::string name;
  std::string hf_model_type;  // "model_type" of config.json
  // Tensors; empty: the family has none. fc1 and fc2 are a plain MLP, the projections a gated one.
#define GPK_SPEC_TENSOR(field) std::string field;
#include "llm/spec_tensors.def"
  CrossTensors cross;                // of a decoder beside an encoder
  ConvTensors conv;                  // of an encoder of spectrograms
  std::string prefix;                // that all names may begin with
  std::vector<std::string> ignored;  // ends of names that are no weights
  std::vector<std::string> beside;   // beginnings of names of a folder's other models

  NormKind norm = NormKind::kRms;
  MlpActivation activation = MlpActivation::kSilu;
  bool use_rope = true;
  bool qkv_combined = false;      // q_proj holds q, k and v
  bool gate_up_combined = false;  // gate_proj holds gate and up
  bool weight_transpose = false;  // weights are [in, out]
  bool attention_bias = false;    // where config.json does not say
  bool scale_embeddings = false;  // by sqrt(hidden_size)
  double norm_offset = 0.0;       // added to the weights of norms
  double default_norm_eps = 1e-5;
  double default_rope_theta = 10000.0;

  [[nodiscard]] bool is_moe() const { return !moe_gate.empty(); }
  [[nodiscard]] bool has_cross() const { return !cross.q_proj.empty(); }
  // Rows come from convolutions and all see each other; there is no head.
  [[nodiscard]] bool is_encoder() const { return !conv.conv1.empty(); }
  [[nodiscard]] bool is_gated() const { return !gate_proj.empty() || is_moe(); }
};

// gpt2, llama, mistral, qwen2, qwen3, gemma2, gemma3_text, phi3, mixtral, qwen3_moe.
std::span<const ModelSpec> model_specs();

// By "model_type". Throws InvalidArgument that lists the known ones.
const ModelSpec& spec_of_type(std::string_view model_type);

// The text model of a folder that has a vision tower beside it, by the names of its tensors: with
// "language_model.model." or "model.language_model." for "model.". `spec` where there is none.
ModelSpec text_part(const ModelSpec& spec, std::span<const std::string> tensors);

// By the names of tensors, for files without a config.json. Throws InvalidArgument.
const ModelSpec& detect_spec(std::span<const std::string> tensors);

// "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight" with numbers.
std::string tensor_name(std::string_view pattern, std::int64_t layer, std::int64_t expert = 0);

}  // namespace gpk::llm
