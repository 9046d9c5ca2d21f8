#include "llm/config_json.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "llm/json_fields.h"

namespace gpk::llm {
namespace {

using Fields = JsonFields;

// What a config.json leaves out is what the family's class in Transformers has: numbers that no
// shape of a tensor would give away, and all of Gemma 3, whose files hold little else.
const Json* defaults_of(const ModelSpec& spec) {
  static constexpr char kQwen[] =
      R"({"use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
        "rope_theta": 1e4, "max_position_embeddings": 32768})";
  static constexpr std::pair<const char*, const char*> kDefaults[] = {
      {"llama", R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048})"},
      {"mistral", R"({"rms_norm_eps": 1e-6, "sliding_window": 4096,
        "max_position_embeddings": 131072})"},
      {"mixtral", R"({"max_position_embeddings": 131072})"},
      {"phi3", R"({"max_position_embeddings": 4096})"},
      {"qwen2", kQwen},
      {"qwen3", kQwen},
      {"qwen3_moe", R"({"use_sliding_window": false, "sliding_window": 4096,
        "norm_topk_prob": false, "num_experts_per_tok": 8, "rope_theta": 1e4,
        "max_position_embeddings": 32768})"},
      {"gemma2", R"({"query_pre_attn_scalar": 256, "sliding_window": 4096,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        "max_position_embeddings": 8192})"},
      {"gemma3_text", R"({"query_pre_attn_scalar": 256, "sliding_window": 4096,
        "sliding_window_pattern": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
        "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "max_position_embeddings": 131072})"}};
  static const std::map<std::string, Json> parsed = [] {
    std::map<std::string, Json> all;
    for (const auto& [family, text] : kDefaults) all.emplace(family, parse_json(text, family));
    return all;
  }();
  const auto found = parsed.find(spec.name);
  return found == parsed.end() ? nullptr : &found->second;
}

// Switches that change the numbers, and the one setting that is computed.
void refuse_switches(const Fields& fields) {
  const auto check = [&](const char* field, bool expected) {
    if (fields.boolean(field, expected) != expected)
      throw InvalidArgument(cat("load: ", field, " of config.json is ",
                                !expected ? "true" : "false", ", expected ",
                                expected ? "true" : "false", "; nothing else is supported"));
  };
  check("scale_attn_weights", true);
  check("scale_attn_by_inverse_layer_idx", false);
  check("add_cross_attention", false);
  check("mlp_bias", false);
  check("use_mrope", false);
  if (const Json* both = fields.find("use_bidirectional_attention");
      both != nullptr && both->boolean() != false)
    throw InvalidArgument(
        "load: use_bidirectional_attention of config.json is given, expected false");
}

// Transformers 4: "rope_theta" and "rope_scaling"; 5: "rope_parameters", for models with windows
// one by type of layer.
RopeConfig read_rope(const Fields& fields, const ModelConfig& config, const ModelSpec& spec,
                     bool local) {
  RopeConfig rope;
  const Json* given = fields.find("rope_parameters");
  if (given != nullptr) {
    const Json* by_layer = given->find(local ? "sliding_attention" : "full_attention");
    if (by_layer != nullptr) given = by_layer;
  }
  const bool own_scaling = given != nullptr;
  if (given == nullptr) given = fields.find("rope_scaling");
  if (local && !own_scaling && fields.find("rope_local_base_freq") != nullptr) given = nullptr;
  static const Json kNone;
  const Fields scaling(given == nullptr ? kNone : *given);

  rope.theta = fields.number("rope_theta", spec.default_rope_theta);
  if (local) rope.theta = fields.number("rope_local_base_freq", rope.theta);
  rope.theta = scaling.number("rope_theta", rope.theta);
  const double share =
      scaling.number("partial_rotary_factor", fields.number("partial_rotary_factor", 1.0));
  rope.dim = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * share);

  ops::RopeScaling& s = rope.scaling;
  std::string kind = scaling.text("rope_type", scaling.text("type", "default").c_str());
  if (kind == "su") kind = "longrope";  // Phi-3's first name for it
  s.kind = ops::rope_kind_named(kind, "load");
  s.factor = scaling.number("factor", 0.0);
  const double trained = scaling.number("original_max_position_embeddings",
                                        fields.number("original_max_position_embeddings", 0.0));
  s.original_max_positions = trained > 0.0 ? trained : static_cast<double>(config.max_positions);
  const bool by_lengths =
      s.kind == ops::RopeKind::kLongrope || (s.kind == ops::RopeKind::kYarn && s.factor == 0.0);
  if (by_lengths && (trained > 0.0 || s.factor == 0.0))
    s.factor = static_cast<double>(config.max_positions) / s.original_max_positions;
  s.low_freq_factor = scaling.number("low_freq_factor", 0.0);
  s.high_freq_factor = scaling.number("high_freq_factor", 0.0);
  s.beta_fast = scaling.number("beta_fast", s.beta_fast);
  s.beta_slow = scaling.number("beta_slow", s.beta_slow);
  s.truncate = scaling.boolean("truncate", true);
  s.attention_factor = scaling.number("attention_factor", 0.0);
  s.mscale = scaling.number("mscale", 0.0);
  s.mscale_all_dim = scaling.number("mscale_all_dim", 0.0);
  s.short_factor = scaling.numbers("short_factor");
  s.long_factor = scaling.numbers("long_factor");
  return rope;
}

// "layer_types" where it is given; else what the family did before there was such a field.
void read_windows(const Fields& fields, const ModelSpec& spec, ModelConfig& config) {
  const bool has_windows = spec.name != "llama" && spec.name != "gpt2";
  config.window = has_windows ? fields.integer("sliding_window", 0) : 0;
  if (!fields.boolean("use_sliding_window", true)) config.window = 0;
  const auto layers =
      static_cast<std::size_t>(std::clamp<std::int64_t>(config.num_layers, 0, 4096));
  config.has_window.assign(layers, config.window > 0);
  if (const Json* types = fields.find("layer_types")) {
    if (types->items() == nullptr) refuse_field("layer_types", *types, "an array of strings");
    config.has_window.clear();
    for (const Json& type : *types->items()) {
      const std::string* text = type.string();
      if (text == nullptr || (*text != "full_attention" && *text != "sliding_attention"))
        throw InvalidArgument(cat("load: layer_types of config.json has '",
                                  text == nullptr ? to_string(type.kind()) : shorten(*text, 80),
                                  "', expected full_attention or sliding_attention"));
      config.has_window.push_back(*text == "sliding_attention" && config.window > 0);
    }
    return;
  }
  const std::int64_t every =  // which layer sees everything
      spec.name == "gemma2" ? 2 : fields.integer("sliding_window_pattern", 0);
  // Qwen2 and 3: those before do not. The class of qwen3_moe does not read it.
  const std::int64_t first = spec.name == "qwen3_moe" ? 0 : fields.integer("max_window_layers", 0);
  for (std::size_t i = 0; i < layers; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    if ((every > 0 && (layer + 1) % every == 0) || layer < first) config.has_window[i] = false;
  }
}

void read_experts(const Fields& fields, ModelConfig& config) {
  config.num_experts = fields.integer("num_local_experts", fields.integer("num_experts", 0));
  config.experts_per_token = fields.integer("num_experts_per_tok", 2);
  config.intermediate_size = fields.integer("moe_intermediate_size", config.intermediate_size);
  config.renormalize_experts = fields.boolean("norm_topk_prob", true);
  if (config.num_experts <= 0)
    throw InvalidArgument("load: config.json has neither num_local_experts nor num_experts");
  const std::vector<double> plain = fields.numbers("mlp_only_layers");
  if (!plain.empty() || fields.integer("decoder_sparse_step", 1) != 1)
    throw InvalidArgument("load: config.json has layers without experts, which is not supported");
}

// Each family reads one field. True for the erf form of GELU, which gated MLPs do not have.
bool read_exact_gelu(const Fields& fields, const ModelSpec& spec) {
  const bool silu = spec.activation == MlpActivation::kSilu;
  const char* field = silu ? "hidden_act" : "activation_function";
  const char* fallback = silu ? "silu" : "gelu_new";
  if (!silu && spec.is_gated()) {
    field = "hidden_activation";
    fallback = "gelu_pytorch_tanh";
  }
  const std::string given = fields.text(field, fallback);
  const bool tanh_form = given == "gelu_new" || given == "gelu_pytorch_tanh";
  if (silu ? given == "silu" || given == "swish" : tanh_form) return false;
  if (!silu && !spec.is_gated() && given == "gelu") return true;
  const char* expected = silu              ? "silu"
                         : spec.is_gated() ? "gelu_pytorch_tanh"
                                           : "gelu_new, gelu_pytorch_tanh or gelu";
  throw InvalidArgument(cat("load: the activation of config.json is '", shorten(given, 80), "' (",
                            field, "), expected ", expected, " for ", spec.name));
}

}  // namespace

std::string model_type_of(const Json& config) {
  if (config.kind() != Json::Kind::kObject)
    throw InvalidArgument(
        cat("load: config.json is ", to_string(config.kind()), ", expected an object"));
  const Fields fields(config);
  const std::string type = fields.text("model_type", "");
  if (const Json* text = fields.find("text_config"); text != nullptr)
    return Fields(*text).text("model_type", type == "gemma3" ? "gemma3_text" : "");
  return type;
}

ModelConfig read_config(const Json& config, const ModelSpec& spec) {
  const Json* part = config.find("text_config");
  const Fields fields(part != nullptr ? *part : config, defaults_of(spec));
  ModelConfig c;
  const bool old_names = fields.find("n_embd") != nullptr;  // GPT-2's
  c.vocab_size = fields.integer("vocab_size");
  c.hidden_size = fields.integer(old_names ? "n_embd" : "hidden_size");
  c.num_layers = fields.integer(old_names ? "n_layer" : "num_hidden_layers");
  c.num_heads = fields.integer(old_names ? "n_head" : "num_attention_heads");
  c.num_kv_heads = fields.integer("num_key_value_heads", c.num_heads);
  c.head_dim = fields.integer("head_dim", c.num_heads > 0 ? c.hidden_size / c.num_heads : 0);
  c.intermediate_size = old_names ? fields.integer("n_inner", 4 * c.hidden_size)
                                  : fields.integer("intermediate_size");
  c.max_positions = old_names ? fields.integer("n_positions", 1024)
                              : fields.integer("max_position_embeddings", 2048);
  c.norm_eps =
      fields.number("rms_norm_eps", fields.number("layer_norm_epsilon", spec.default_norm_eps));
  c.tie_word_embeddings = fields.boolean("tie_word_embeddings", old_names || spec.scale_embeddings);
  c.attention_bias = fields.boolean("attention_bias", spec.attention_bias);
  if (spec.attention_bias) c.attention_bias = true;
  // Gemma 3 has the field and does not read it.
  if (spec.name != "gemma3_text")
    c.attention_softcap = fields.number("attn_logit_softcapping", 0.0);
  c.final_softcap = fields.number("final_logit_softcapping", 0.0);
  const double scalar = fields.number("query_pre_attn_scalar", 0.0);
  if (scalar > 0.0) c.attention_scale = 1.0 / std::sqrt(scalar);
  if (spec.scale_embeddings) c.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
  if (spec.is_moe()) read_experts(fields, c);
  c.exact_gelu = read_exact_gelu(fields, spec);
  refuse_switches(fields);
  read_windows(fields, spec, c);
  if (spec.use_rope) {
    c.rope = read_rope(fields, c, spec, false);
    c.local_rope = read_rope(fields, c, spec, true);
  }
  check_config(c);
  return c;
}

}  // namespace gpk::llm
