#include "llm/model_spec.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

// Names that LLaMA introduced and most families kept.
ModelSpec llama_like(const char* name) {
  ModelSpec s;
  s.name = s.hf_model_type = name;
  s.embed_tokens = "model.embed_tokens.weight";
  s.lm_head = "lm_head.weight";
  s.final_norm = "model.norm.weight";
  s.attn_norm = "model.layers.{layer}.input_layernorm.weight";
  s.q_proj = "model.layers.{layer}.self_attn.q_proj.weight";
  s.k_proj = "model.layers.{layer}.self_attn.k_proj.weight";
  s.v_proj = "model.layers.{layer}.self_attn.v_proj.weight";
  s.o_proj = "model.layers.{layer}.self_attn.o_proj.weight";
  s.q_bias = "model.layers.{layer}.self_attn.q_proj.bias";
  s.k_bias = "model.layers.{layer}.self_attn.k_proj.bias";
  s.v_bias = "model.layers.{layer}.self_attn.v_proj.bias";
  s.o_bias = "model.layers.{layer}.self_attn.o_proj.bias";
  s.mlp_norm = "model.layers.{layer}.post_attention_layernorm.weight";
  s.gate_proj = "model.layers.{layer}.mlp.gate_proj.weight";
  s.up_proj = "model.layers.{layer}.mlp.up_proj.weight";
  s.down_proj = "model.layers.{layer}.mlp.down_proj.weight";
  s.ignored = {"rotary_emb.inv_freq"};
  return s;
}

ModelSpec gpt2() {
  ModelSpec s;
  s.name = s.hf_model_type = "gpt2";
  s.prefix = "transformer.";
  s.embed_tokens = "wte.weight";
  s.position_embed = "wpe.weight";
  s.lm_head = "lm_head.weight";
  s.final_norm = "ln_f.weight";
  s.final_norm_bias = "ln_f.bias";
  s.attn_norm = "h.{layer}.ln_1.weight";
  s.attn_norm_bias = "h.{layer}.ln_1.bias";
  s.q_proj = "h.{layer}.attn.c_attn.weight";
  s.q_bias = "h.{layer}.attn.c_attn.bias";
  s.o_proj = "h.{layer}.attn.c_proj.weight";
  s.o_bias = "h.{layer}.attn.c_proj.bias";
  s.mlp_norm = "h.{layer}.ln_2.weight";
  s.mlp_norm_bias = "h.{layer}.ln_2.bias";
  s.fc1 = "h.{layer}.mlp.c_fc.weight";
  s.fc1_bias = "h.{layer}.mlp.c_fc.bias";
  s.fc2 = "h.{layer}.mlp.c_proj.weight";
  s.fc2_bias = "h.{layer}.mlp.c_proj.bias";
  s.ignored = {".attn.bias", ".attn.masked_bias"};
  s.norm = NormKind::kLayer;
  s.activation = MlpActivation::kGelu;
  s.use_rope = false;
  s.qkv_combined = s.weight_transpose = s.attention_bias = true;
  return s;
}

ModelSpec qwen(const char* name, bool qk_norm) {
  ModelSpec s = llama_like(name);
  s.default_norm_eps = 1e-6;
  s.default_rope_theta = 1e6;
  if (qk_norm) {
    s.q_norm = "model.layers.{layer}.self_attn.q_norm.weight";
    s.k_norm = "model.layers.{layer}.self_attn.k_norm.weight";
  } else {
    s.attention_bias = true;
    s.o_bias.clear();
  }
  return s;
}

// Norms before and after each block, with 1 added to their weights.
ModelSpec gemma(const char* name, bool qk_norm) {
  ModelSpec s = llama_like(name);
  s.attn_post_norm = "model.layers.{layer}.post_attention_layernorm.weight";
  s.mlp_norm = "model.layers.{layer}.pre_feedforward_layernorm.weight";
  s.mlp_post_norm = "model.layers.{layer}.post_feedforward_layernorm.weight";
  s.activation = MlpActivation::kGelu;
  s.scale_embeddings = true;
  s.norm_offset = 1.0;
  s.default_norm_eps = 1e-6;
  if (qk_norm) {
    s.q_norm = "model.layers.{layer}.self_attn.q_norm.weight";
    s.k_norm = "model.layers.{layer}.self_attn.k_norm.weight";
  }
  return s;
}

ModelSpec phi3() {
  ModelSpec s = llama_like("phi3");
  s.q_proj = "model.layers.{layer}.self_attn.qkv_proj.weight";
  s.gate_proj = "model.layers.{layer}.mlp.gate_up_proj.weight";
  s.k_proj.clear();
  s.v_proj.clear();
  s.up_proj.clear();
  s.qkv_combined = s.gate_up_combined = true;
  return s;
}

void use_experts(ModelSpec& s, const char* router, const std::string& expert, const char* gate,
                 const char* up, const char* down) {
  s.gate_proj.clear();
  s.up_proj.clear();
  s.down_proj.clear();
  s.moe_gate = router;
  s.expert_gate_proj = expert + gate;
  s.expert_up_proj = expert + up;
  s.expert_down_proj = expert + down;
}

ModelSpec mixtral() {
  ModelSpec s = llama_like("mixtral");
  s.default_rope_theta = 1e6;
  use_experts(s, "model.layers.{layer}.block_sparse_moe.gate.weight",
              "model.layers.{layer}.block_sparse_moe.experts.{expert}.", "w1.weight", "w3.weight",
              "w2.weight");
  return s;
}

ModelSpec qwen3_moe() {
  ModelSpec s = qwen("qwen3_moe", true);
  s.default_rope_theta = 1e7;
  use_experts(s, "model.layers.{layer}.mlp.gate.weight",
              "model.layers.{layer}.mlp.experts.{expert}.", "gate_proj.weight", "up_proj.weight",
              "down_proj.weight");
  return s;
}

}  // namespace

std::span<const ModelSpec> model_specs() {
  static const std::vector<ModelSpec> specs = {
      gpt2(),
      llama_like("llama"),
      llama_like("mistral"),
      qwen("qwen2", false),
      qwen("qwen3", true),
      gemma("gemma2", false),
      gemma("gemma3_text", true),
      phi3(),
      mixtral(),
      qwen3_moe(),
  };
  return specs;
}

const ModelSpec& spec_of_type(std::string_view model_type) {
  std::vector<std::string> known;
  for (const ModelSpec& spec : model_specs()) {
    if (spec.hf_model_type == model_type) return spec;
    known.push_back(spec.hf_model_type);
  }
  throw InvalidArgument(cat("load: config.json has model_type '", shorten(model_type, 80),
                            "', expected one of ", join(known, ", ")));
}

ModelSpec text_part(const ModelSpec& spec, std::span<const std::string> tensors) {
  static constexpr std::string_view kOwn = "model.";
  for (const std::string_view stem : {"language_model.model.", "model.language_model."}) {
    const auto begins = [&](const std::string& name) { return name.starts_with(stem); };
    if (std::none_of(tensors.begin(), tensors.end(), begins)) continue;
    ModelSpec part = spec;
    const auto rename = [&](std::string& pattern) {
      if (pattern.starts_with(kOwn)) pattern = cat(stem, pattern.substr(kOwn.size()));
    };
#define GPK_SPEC_TENSOR(field) rename(part.field);
#include "llm/spec_tensors.def"
    if (stem.starts_with("language_model.")) part.lm_head = cat("language_model.", spec.lm_head);
    part.beside = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                   "model.multi_modal_projector."};
    return part;
  }
  return spec;
}

const ModelSpec& detect_spec(std::span<const std::string> tensors) {
  const auto any = [&](std::string_view part) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const std::string& name) {
      return name.find(part) != std::string::npos;
    });
  };
  if (any("block_sparse_moe")) return spec_of_type("mixtral");
  if (any("pre_feedforward_layernorm"))
    return spec_of_type(any("q_norm") ? "gemma3_text" : "gemma2");
  if (any("mlp.experts") && any("q_norm")) return spec_of_type("qwen3_moe");
  if (any("q_norm")) return spec_of_type("qwen3");
  if (any("self_attn.qkv_proj")) return spec_of_type("phi3");
  if (any("model.embed_tokens.weight"))
    return spec_of_type(any("layers.0.self_attn.q_proj.bias") ? "qwen2" : "llama");
  if (any("wte.weight")) return spec_of_type("gpt2");
  throw InvalidArgument(cat("load: Cannot detect model type from ", tensors.size(),
                            " tensors: none of the known families has such names"));
}

std::string tensor_name(std::string_view pattern, std::int64_t layer, std::int64_t expert) {
  std::string name(pattern);
  const auto replace = [&](std::string_view field, std::int64_t number) {
    const std::size_t at = name.find(field);
    if (at != std::string::npos) name.replace(at, field.size(), cat(number));
  };
  replace("{layer}", layer);
  replace("{expert}", expert);
  return name;
}

}  // namespace gpk::llm
