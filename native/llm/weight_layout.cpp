#include "llm/weight_layout.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

constexpr std::size_t kNamed = 5;  // tensors that a message lists
constexpr std::int64_t kConvTaps = 3;
const std::string kNoTensor;

struct Builder {
  const ModelSpec& spec;
  const ModelConfig& c;
  std::vector<Weight>& weights;

  struct Rows {
    const std::string& pattern;
    std::int64_t rows;
  };

  // One matrix of stacked tensors, each [rows, k].
  void matrix(Role role, std::int64_t layer, std::initializer_list<Rows> stacked, std::int64_t k) {
    Weight w{role, layer, {}, spec.weight_transpose && layer >= 0, {}};
    std::int64_t n = 0;
    for (const Rows& part : stacked) {
      const Dims shape = w.transposed ? Dims{k, part.rows} : Dims{part.rows, k};
      w.parts.push_back({tensor_name(part.pattern, layer), shape, n, 0});
      n += part.rows;
    }
    w.shape = {n, k};
    weights.push_back(std::move(w));
  }

  void vector(Role role, std::int64_t layer, std::initializer_list<Rows> joined) {
    Weight w{role, layer, {}, false, {}};
    std::int64_t n = 0;
    for (const Rows& part : joined) {
      if (!part.pattern.empty())
        w.parts.push_back({tensor_name(part.pattern, layer), {part.rows}, n, 0});
      n += part.rows;
    }
    if (w.parts.empty()) return;
    w.shape = {n};
    weights.push_back(std::move(w));
  }

  void experts(Role role, std::int64_t layer, std::initializer_list<Rows> stacked, std::int64_t k) {
    Weight w{role, layer, {}, false, {}};
    std::int64_t n = 0;
    for (std::int64_t e = 0; e < c.num_experts; ++e) {
      n = 0;
      for (const Rows& part : stacked) {
        w.parts.push_back({tensor_name(part.pattern, layer, e), {part.rows, k}, n, e});
        n += part.rows;
      }
    }
    w.shape = {c.num_experts, n, k};
    weights.push_back(std::move(w));
  }

  void attention(std::int64_t i) {
    const std::int64_t q = c.q_size();
    const std::int64_t kv = c.kv_size();
    vector(Role::kAttentionNorm, i, {{spec.attn_norm, c.hidden_size}});
    vector(Role::kAttentionNormBias, i, {{spec.attn_norm_bias, c.hidden_size}});
    if (spec.qkv_combined)
      matrix(Role::kQkv, i, {{spec.q_proj, q + 2 * kv}}, c.hidden_size);
    else
      matrix(Role::kQkv, i, {{spec.q_proj, q}, {spec.k_proj, kv}, {spec.v_proj, kv}},
             c.hidden_size);
    if (c.attention_bias && spec.qkv_combined)
      vector(Role::kQkvBias, i, {{spec.q_bias, q + 2 * kv}});
    else if (c.attention_bias)
      vector(Role::kQkvBias, i, {{spec.q_bias, q}, {spec.k_bias, kv}, {spec.v_bias, kv}});
    vector(Role::kQNorm, i, {{spec.q_norm, c.head_dim}});
    vector(Role::kKNorm, i, {{spec.k_norm, c.head_dim}});
    matrix(Role::kOutput, i, {{spec.o_proj, c.hidden_size}}, q);
    if (c.attention_bias) vector(Role::kOutputBias, i, {{spec.o_bias, c.hidden_size}});
    vector(Role::kAttentionPostNorm, i, {{spec.attn_post_norm, c.hidden_size}});
  }

  void cross(std::int64_t i) {
    const CrossTensors& x = spec.cross;
    const std::int64_t d = c.hidden_size;
    vector(Role::kCrossNorm, i, {{x.norm, d}});
    vector(Role::kCrossNormBias, i, {{x.norm_bias, d}});
    matrix(Role::kCrossQuery, i, {{x.q_proj, c.q_size()}}, d);
    vector(Role::kCrossQueryBias, i, {{x.q_bias, c.q_size()}});
    matrix(Role::kCrossKv, i, {{x.k_proj, c.kv_size()}, {x.v_proj, c.kv_size()}}, d);
    vector(Role::kCrossKvBias, i, {{kNoTensor, c.kv_size()}, {x.v_bias, c.kv_size()}});
    matrix(Role::kCrossOutput, i, {{x.o_proj, d}}, c.q_size());
    vector(Role::kCrossOutputBias, i, {{x.o_bias, d}});
  }

  void convolutions() {
    const auto conv = [&](Role role, const std::string& tensor, std::int64_t channels) {
      const Dims shape{c.hidden_size, channels, kConvTaps};
      weights.push_back({role, -1, shape, false, {{tensor, shape}}});
    };
    conv(Role::kConv1, spec.conv.conv1, c.num_mels);
    vector(Role::kConv1Bias, -1, {{spec.conv.conv1_bias, c.hidden_size}});
    conv(Role::kConv2, spec.conv.conv2, c.hidden_size);
    vector(Role::kConv2Bias, -1, {{spec.conv.conv2_bias, c.hidden_size}});
  }

  void mlp(std::int64_t i) {
    const std::int64_t inner = c.intermediate_size;
    vector(Role::kMlpNorm, i, {{spec.mlp_norm, c.hidden_size}});
    vector(Role::kMlpNormBias, i, {{spec.mlp_norm_bias, c.hidden_size}});
    if (spec.is_moe()) {
      matrix(Role::kRouter, i, {{spec.moe_gate, c.num_experts}}, c.hidden_size);
      experts(Role::kExpertsUp, i, {{spec.expert_gate_proj, inner}, {spec.expert_up_proj, inner}},
              c.hidden_size);
      experts(Role::kExpertsDown, i, {{spec.expert_down_proj, c.hidden_size}}, inner);
    } else if (!spec.is_gated()) {
      matrix(Role::kUp, i, {{spec.fc1, inner}}, c.hidden_size);
      vector(Role::kUpBias, i, {{spec.fc1_bias, inner}});
      matrix(Role::kDown, i, {{spec.fc2, c.hidden_size}}, inner);
      vector(Role::kDownBias, i, {{spec.fc2_bias, c.hidden_size}});
    } else {
      if (spec.gate_up_combined)
        matrix(Role::kUp, i, {{spec.gate_proj, 2 * inner}}, c.hidden_size);
      else
        matrix(Role::kUp, i, {{spec.gate_proj, inner}, {spec.up_proj, inner}}, c.hidden_size);
      matrix(Role::kDown, i, {{spec.down_proj, c.hidden_size}}, inner);
    }
    vector(Role::kMlpPostNorm, i, {{spec.mlp_post_norm, c.hidden_size}});
  }
};

std::string list(const std::vector<std::string>& names) {
  std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed)));
  std::string text = join(first, ", ");
  if (names.size() > kNamed) text += cat(" and ", names.size() - kNamed, " more");
  return text;
}

}  // namespace

const char* to_string(Role role) {
  static constexpr const char* kNames[kNumRoles] = {"none",
                                                    "embedding",
                                                    "positions",
                                                    "final_norm",
                                                    "final_norm_bias",
                                                    "head",
                                                    "attention_norm",
                                                    "attention_norm_bias",
                                                    "qkv",
                                                    "qkv_bias",
                                                    "q_norm",
                                                    "k_norm",
                                                    "output",
                                                    "output_bias",
                                                    "attention_post_norm",
                                                    "cross_norm",
                                                    "cross_norm_bias",
                                                    "cross_query",
                                                    "cross_query_bias",
                                                    "cross_kv",
                                                    "cross_kv_bias",
                                                    "cross_output",
                                                    "cross_output_bias",
                                                    "mlp_norm",
                                                    "mlp_norm_bias",
                                                    "up",
                                                    "up_bias",
                                                    "down",
                                                    "down_bias",
                                                    "mlp_post_norm",
                                                    "router",
                                                    "experts_up",
                                                    "experts_down",
                                                    "conv1",
                                                    "conv1_bias",
                                                    "conv2",
                                                    "conv2_bias"};
  return kNames[static_cast<int>(role)];
}

std::vector<Weight> weight_layout(const ModelSpec& spec, const ModelConfig& config) {
  std::vector<Weight> weights;
  Builder b{spec, config, weights};
  if (spec.is_encoder())
    b.convolutions();
  else
    b.matrix(Role::kEmbedding, -1, {{spec.embed_tokens, config.vocab_size}}, config.hidden_size);
  if (!spec.position_embed.empty())
    b.matrix(Role::kPositions, -1, {{spec.position_embed, config.max_positions}},
             config.hidden_size);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    b.attention(i);
    if (spec.has_cross()) b.cross(i);
    b.mlp(i);
  }
  b.vector(Role::kFinalNorm, -1, {{spec.final_norm, config.hidden_size}});
  b.vector(Role::kFinalNormBias, -1, {{spec.final_norm_bias, config.hidden_size}});
  if (!config.tie_word_embeddings && !spec.is_encoder())
    b.matrix(Role::kHead, -1, {{spec.lm_head, config.vocab_size}}, config.hidden_size);
  return weights;
}

void check_tensors(const std::vector<Weight>& layout, const ModelSpec& spec,
                   const std::map<std::string, Dims>& tensors, std::string& prefix) {
  const std::string& first = layout.front().parts.front().tensor;
  prefix = tensors.contains(spec.prefix + first) ? spec.prefix : "";
  std::vector<std::string> missing;
  std::map<std::string, bool> used;
  for (const Weight& weight : layout)
    for (const WeightPart& part : weight.parts) {
      // The head is not below the prefix.
      const bool bare = weight.role == Role::kHead;
      const std::string name = (bare ? "" : prefix) + part.tensor;
      const auto found = tensors.find(name);
      used[name] = true;
      if (found == tensors.end())
        missing.push_back(name);
      else if (found->second != part.shape)
        throw InvalidArgument(cat("load: tensor ", name, " has shape ", to_string(found->second),
                                  ", expected ", to_string(part.shape), " by config.json"));
    }
  if (!missing.empty())
    throw InvalidArgument(
        cat("load: ", missing.size(), " tensors of ", spec.name, " are missing: ", list(missing)));
  std::vector<std::string> extra;
  for (const auto& [name, shape] : tensors) {
    const auto ends = [&](const std::string& end) { return name.ends_with(end); };
    const auto begins = [&](const std::string& stem) { return name.starts_with(stem); };
    const bool ignored = std::any_of(spec.ignored.begin(), spec.ignored.end(), ends) ||
                         std::any_of(spec.beside.begin(), spec.beside.end(), begins);
    const bool tied_head =
        !name.empty() && name == spec.lm_head;  // written by some although it is the embedding
    if (!used.contains(name) && !ignored && !tied_head) extra.push_back(name);
  }
  if (!extra.empty())
    throw InvalidArgument(
        cat("load: ", extra.size(), " tensors are none of ", spec.name, "'s: ", list(extra)));
}

}  // namespace gpk::llm
