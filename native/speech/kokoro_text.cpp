#include "speech/kokoro_text.h"

#include "base/text.h"
#include "core/view.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/indexing/take.h"
#include "ops/manipulation/join.h"
#include "ops/nn/norm.h"
#include "ops/reduction/reduce.h"

namespace gpk::speech {
namespace {

constexpr const char* kOp = "kokoro";
constexpr double kNormEps = 1e-5;
constexpr double kSlope = 0.2;

LayerNorm norm_of(const KokoroWeights& weights, const std::string& name, std::int64_t size,
                  double eps) {
  return {weights.get(name + ".weight", {size}), weights.get(name + ".bias", {size}), eps};
}

// Rows of a table, with a batch axis.
Array rows(const Array& table, const Array& tokens) {
  return expand_dims(ops::take(table, tokens, 0, ops::IndexMode::kRaise, std::nullopt), {0}, kOp);
}

Array joined(const Array& a, const Array& b, std::int64_t axis) {
  const Array parts[] = {a, b};
  return ops::concat(parts, axis, {}, kOp);
}

}  // namespace

// --- PL-BERT ---
PlBert::Layer::Layer(const KokoroWeights& weights, const std::string& name,
                     const PlBertConfig& config)
    : qkv(weights.get(name + ".attention.query.weight", {config.hidden_size, config.hidden_size})),
      qkv_bias(weights.get(name + ".attention.query.bias", {config.hidden_size})),
      dense(weights, name + ".attention.dense", {config.hidden_size, config.hidden_size}),
      ffn(weights, name + ".ffn", {config.intermediate_size, config.hidden_size}),
      ffn_output(weights, name + ".ffn_output", {config.hidden_size, config.intermediate_size}),
      attention_norm(
          norm_of(weights, name + ".attention.LayerNorm", config.hidden_size, config.norm_eps)),
      output_norm(
          norm_of(weights, name + ".full_layer_layer_norm", config.hidden_size, config.norm_eps)) {
  for (const char* part : {".attention.key", ".attention.value"}) {
    const Linear more(weights, name + part, {config.hidden_size, config.hidden_size});
    qkv = joined(qkv, more.w, 0);
    qkv_bias = joined(qkv_bias, more.b, 0);
  }
}

PlBert::PlBert(const KokoroWeights& weights, const PlBertConfig& config, std::int64_t n_token)
    : config_(config),
      embedding_(
          weights.get("bert.embeddings.word_embeddings.weight", {n_token, config.embedding_size})),
      positions_(weights.get("bert.embeddings.position_embeddings.weight",
                             {config.max_positions, config.embedding_size})),
      norm_(norm_of(weights, "bert.embeddings.LayerNorm", config.embedding_size, config.norm_eps)),
      mapping_(weights, "bert.encoder.embedding_hidden_mapping_in",
               {config.hidden_size, config.embedding_size}) {
  const Array types =
      weights.get("bert.embeddings.token_type_embeddings.weight", {-1, config.embedding_size});
  positions_ = ops::add(positions_, slice_axis(types, 0, 0, 1, 1));
  for (std::int64_t g = 0; g < config.num_groups; ++g)
    for (std::int64_t i = 0; i < config.inner_group_num; ++i)
      layers_.emplace_back(
          weights, cat("bert.encoder.albert_layer_groups.", g, ".albert_layers.", i), config);
}

Array PlBert::attend(const Array& x, const Layer& layer) const {
  const std::int64_t heads = config_.num_heads;
  const std::int64_t hidden = config_.hidden_size;
  ops::LinearOptions options;
  options.bias = layer.qkv_bias;
  const Array all = ops::linear(x, layer.qkv, options, kOp);  // [1, tokens, 3 hidden]
  const std::int64_t tokens = x.shape()[1];
  const auto part = [&](std::int64_t which) {
    const Array columns = slice_axis(all, 2, which * hidden, hidden, 1);
    return *try_reshape(columns, {1, tokens, heads, hidden / heads});
  };
  const Array mixed = ops::run_attention(part(0), part(1), part(2), {}, std::nullopt);
  ops::LinearOptions residual;
  residual.residual = x;
  return layer.attention_norm.run(
      layer.dense.run(ops::reshape(mixed, {1, tokens, hidden}, kOp), residual));
}

Array PlBert::run(const Array& tokens) const {
  const Array positions = slice_axis(positions_, 0, 0, tokens.shape()[0], 1);
  Array x = mapping_.run(norm_.run(ops::add(rows(embedding_, tokens), positions)));
  for (std::int64_t i = 0; i < config_.num_layers; ++i) {
    const std::int64_t group = i / (config_.num_layers / config_.num_groups);
    for (std::int64_t j = 0; j < config_.inner_group_num; ++j) {
      const Layer& layer = layers_[static_cast<std::size_t>(group * config_.inner_group_num + j)];
      const Array attended = attend(x, layer);
      ops::LinearOptions gelu;
      gelu.activation = ops::Activation::kGelu;
      ops::LinearOptions residual;
      residual.residual = attended;
      x = layer.output_norm.run(layer.ffn_output.run(layer.ffn.run(attended, gelu), residual));
    }
  }
  return x;
}

// --- text encoder ---
TextEncoder::TextEncoder(const KokoroWeights& weights, const KokoroConfig& config)
    : embedding_(weights.get("text_encoder.embedding.weight", {config.n_token, config.hidden_dim})),
      lstm_(weights, "text_encoder.lstm", config.hidden_dim, config.hidden_dim / 2) {
  const std::int64_t size = config.hidden_dim;
  const std::int64_t taps = config.text_encoder_kernel_size;
  for (std::int64_t i = 0; i < config.n_layer; ++i) {
    const std::string name = cat("text_encoder.cnn.", i);
    blocks_.push_back(
        {Conv(weights, name + ".0", {size, size, taps}, {1, (taps - 1) / 2, 1}, DType::kFloat32),
         LayerNorm{weights.get(name + ".1.gamma", {size}), weights.get(name + ".1.beta", {size}),
                   kNormEps}});
  }
}

Array TextEncoder::run(const Array& tokens) const {
  Array x = rows(embedding_, tokens);
  for (const Block& block : blocks_) {
    x = block.norm.run(flipped(block.conv.run(flipped(x))));
    ops::leaky_relu(x, Scalar(kSlope), &x);
  }
  return lstm_.run(x);
}

// --- prosody ---
ProsodyPredictor::ProsodyPredictor(const KokoroWeights& weights, const KokoroConfig& config)
    : hidden_(config.hidden_dim),
      bank_(config.style_dim),
      lstm_(weights, "predictor.lstm", hidden_ + config.style_dim, hidden_ / 2),
      duration_(weights, "predictor.duration_proj.linear_layer", {config.max_dur, hidden_}),
      shared_(weights, "predictor.shared", hidden_ + config.style_dim, hidden_ / 2),
      pitch_out_(weights, "predictor.F0_proj", {1, hidden_ / 2, 1}, {}, DType::kFloat32),
      energy_out_(weights, "predictor.N_proj", {1, hidden_ / 2, 1}, {}, DType::kFloat32) {
  for (std::int64_t i = 0; i < config.n_layer; ++i) {
    const auto part = [&](std::int64_t which) {
      return cat("predictor.text_encoder.lstms.", 2 * i + which);
    };
    encoder_.push_back({BiLstm(weights, part(0), hidden_ + config.style_dim, hidden_ / 2),
                        bank_.add(weights, part(1), hidden_, 1.0)});
  }
  for (auto& [blocks, name] : {std::pair(&pitch_, "F0"), std::pair(&energy_, "N")})
    for (int i = 0; i < 3; ++i)
      blocks->emplace_back(weights, cat("predictor.", name, ".", i), i == 1, bank_,
                           DType::kFloat32);
  bank_.finish();
}

Array ProsodyPredictor::encode(const Array& x, const Array& style, const Array& styles) const {
  const Array wide =
      broadcast_to(expand_dims(style, {1}, kOp), {1, x.shape()[1], style.shape()[1]}, kOp);
  Array y = joined(x, wide, 2);
  for (const EncoderLayer& layer : encoder_) {
    const auto row = [&](const Array& a) { return squeeze(a, {0}, kOp); };
    const ops::NormOptions options{row(style_scale(styles, layer.norm)),
                                   row(style_shift(styles, layer.norm)), kNormEps};
    y = joined(ops::layernorm(layer.lstm.run(y), options, std::nullopt), wide, 2);
  }
  return y;
}

Array ProsodyPredictor::durations(const Array& encoded) const {
  ops::ReduceOptions last;
  last.axes = Dims{-1};
  return ops::reduce(ops::OpId::sum, ops::sigmoid(duration_.run(lstm_.run(encoded))), last);
}

Prosody ProsodyPredictor::prosody(const Array& aligned, const Array& styles) const {
  const Array shared = flipped(shared_.run(aligned));
  const auto curve = [&](const std::vector<AdaInBlock>& blocks, const Conv& out) {
    Array x = shared;
    for (const AdaInBlock& block : blocks) x = block.run(x, styles);
    return squeeze(out.run(x), {1}, kOp);
  };
  return {curve(pitch_, pitch_out_), curve(energy_, energy_out_)};
}

}  // namespace gpk::speech
