#include "speech/whisper_config.h"

#include "base/error.h"
#include "base/text.h"
#include "llm/json_fields.h"

namespace gpk::speech {
namespace {

using llm::ModelSpec;

// What the layers of both parts have.
ModelSpec part(const std::string& name) {
  ModelSpec s;
  const std::string layer = name + ".layers.{layer}.";
  const std::string attention = layer + "self_attn.";
  s.name = "whisper " + name;
  s.hf_model_type = "whisper";
  s.prefix = "model.";
  s.position_embed = name + ".embed_positions.weight";
  s.final_norm = name + ".layer_norm.weight";
  s.final_norm_bias = name + ".layer_norm.bias";
  s.attn_norm = layer + "self_attn_layer_norm.weight";
  s.attn_norm_bias = layer + "self_attn_layer_norm.bias";
  s.q_proj = attention + "q_proj.weight";
  s.k_proj = attention + "k_proj.weight";
  s.v_proj = attention + "v_proj.weight";
  s.o_proj = attention + "out_proj.weight";
  s.q_bias = attention + "q_proj.bias";
  s.v_bias = attention + "v_proj.bias";
  s.o_bias = attention + "out_proj.bias";
  s.mlp_norm = layer + "final_layer_norm.weight";
  s.mlp_norm_bias = layer + "final_layer_norm.bias";
  s.fc1 = layer + "fc1.weight";
  s.fc1_bias = layer + "fc1.bias";
  s.fc2 = layer + "fc2.weight";
  s.fc2_bias = layer + "fc2.bias";
  s.norm = llm::NormKind::kLayer;
  s.activation = llm::MlpActivation::kGeluErf;
  s.use_rope = false;
  s.attention_bias = true;
  return s;
}

ModelSpec encoder() {
  ModelSpec s = part("encoder");
  s.conv = {"encoder.conv1.weight", "encoder.conv1.bias", "encoder.conv2.weight",
            "encoder.conv2.bias"};
  return s;
}

ModelSpec decoder() {
  ModelSpec s = part("decoder");
  const std::string layer = "decoder.layers.{layer}.encoder_attn";
  s.embed_tokens = "decoder.embed_tokens.weight";
  s.lm_head = "proj_out.weight";
  s.cross = {layer + "_layer_norm.weight", layer + "_layer_norm.bias", layer + ".q_proj.weight",
             layer + ".q_proj.bias",       layer + ".k_proj.weight",   layer + ".v_proj.weight",
             layer + ".v_proj.bias",       layer + ".out_proj.weight", layer + ".out_proj.bias"};
  return s;
}

std::int64_t head_dim(const char* field, std::int64_t hidden, std::int64_t heads) {
  if (heads < 1 || hidden % heads != 0)
    throw InvalidArgument(
        cat("load: ", field, " is ", heads, ", expected a divisor of d_model, ", hidden));
  return hidden / heads;
}

// The numbers that both parts have, from fields that begin with the name of the part.
llm::ModelConfig read_part(const llm::JsonFields& fields, const std::string& name) {
  const auto number = [&](const char* what) { return fields.integer((name + what).c_str()); };
  llm::ModelConfig c;
  c.hidden_size = fields.integer("d_model");
  c.num_layers = number("_layers");
  c.num_heads = c.num_kv_heads = number("_attention_heads");
  c.head_dim = head_dim((name + "_attention_heads").c_str(), c.hidden_size, c.num_heads);
  c.intermediate_size = number("_ffn_dim");
  c.source_positions = fields.integer("max_source_positions", 1500);
  c.attention_bias = true;
  if (c.num_layers > 0 && c.num_layers <= 4096)
    c.has_window.assign(static_cast<std::size_t>(c.num_layers), false);
  return c;
}

}  // namespace

const ModelSpec& whisper_encoder_spec() {
  static const ModelSpec spec = encoder();
  return spec;
}

const ModelSpec& whisper_decoder_spec() {
  static const ModelSpec spec = decoder();
  return spec;
}

WhisperConfig read_whisper_config(const Json& json) {
  if (json.kind() != Json::Kind::kObject)
    throw InvalidArgument(
        cat("load: config.json is ", to_string(json.kind()), ", expected an object"));
  const llm::JsonFields fields(json);
  const std::string type = fields.text("model_type", "whisper");
  if (type != "whisper")
    throw InvalidArgument(
        cat("load: config.json has model_type '", shorten(type, 80), "', expected whisper"));
  if (fields.find("quantization_config") != nullptr)
    throw InvalidArgument("load: config.json has a quantization_config, which is not supported");
  const std::string activation = fields.text("activation_function", "gelu");
  if (activation != "gelu")
    throw InvalidArgument(cat("load: the activation of config.json is '", shorten(activation, 80),
                              "', expected gelu for whisper"));
  WhisperConfig config{read_part(fields, "encoder"), read_part(fields, "decoder")};
  llm::ModelConfig& e = config.encoder;
  llm::ModelConfig& d = config.decoder;
  e.num_mels = fields.integer("num_mel_bins", 80);
  e.max_positions = e.source_positions;
  d.vocab_size = fields.integer("vocab_size");
  d.max_positions = fields.integer("max_target_positions", 448);
  d.tie_word_embeddings = fields.boolean("tie_word_embeddings", true);
  // Transformers reads "scale_embedding" and uses it nowhere, so it does not count here either.
  const auto check = [](const char* field, std::int64_t value, std::int64_t most) {
    if (value < 1 || value > most)
      throw InvalidArgument(cat("load: ", field, " is ", value, ", expected 1 to ", most));
  };
  check("num_mel_bins", e.num_mels, 4096);
  check("max_source_positions", e.source_positions, 1 << 20);
  llm::check_config(e);
  llm::check_config(d);
  return config;
}

}  // namespace gpk::speech
