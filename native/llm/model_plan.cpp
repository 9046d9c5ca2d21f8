#include "llm/model_plan.h"

#include <algorithm>

#include "base/text.h"

namespace gpk::llm {
namespace {

struct Planner {
  const ModelSpec& spec;
  const ModelConfig& config;
  std::vector<Step>& steps;

  // A block's last layer: added to the residual stream, normalised before that where the family
  // does so.
  void finish(Step last, Role post_norm, const std::string& post_norm_tensor) {
    if (post_norm_tensor.empty()) {
      last.out = last.residual = Slot::kHidden;
      steps.push_back(last);
      return;
    }
    last.out = Slot::kDelta;
    steps.push_back(last);
    steps.push_back({StepKind::kNorm, last.layer, Slot::kDelta, Slot::kDelta, post_norm});
    steps.push_back({StepKind::kAdd, last.layer, Slot::kDelta, Slot::kHidden});
  }

  void attention(std::int64_t i) {
    steps.push_back({StepKind::kNorm, i, Slot::kHidden, Slot::kNormed, Role::kAttentionNorm,
                     bias(Role::kAttentionNormBias, spec.attn_norm_bias)});
    steps.push_back({StepKind::kLinear, i, Slot::kNormed, Slot::kQkv, Role::kQkv,
                     config.attention_bias ? Role::kQkvBias : Role::kNone});
    if (spec.is_encoder()) {
      steps.push_back({StepKind::kSelfAttention, i, Slot::kQkv, Slot::kHeads});
    } else {
      steps.push_back({StepKind::kWriteKv, i, Slot::kQkv, Slot::kQuery});
      steps.push_back({StepKind::kAttention, i, Slot::kQuery, Slot::kHeads});
    }
    const Role output_bias =
        config.attention_bias ? bias(Role::kOutputBias, spec.o_bias) : Role::kNone;
    finish({StepKind::kLinear, i, Slot::kHeads, Slot::kNone, Role::kOutput, output_bias},
           Role::kAttentionPostNorm, spec.attn_post_norm);
  }

  void cross(std::int64_t i) {
    const CrossTensors& x = spec.cross;
    steps.push_back({StepKind::kNorm, i, Slot::kHidden, Slot::kNormed, Role::kCrossNorm,
                     bias(Role::kCrossNormBias, x.norm_bias)});
    steps.push_back({StepKind::kLinear, i, Slot::kNormed, Slot::kQuery, Role::kCrossQuery,
                     bias(Role::kCrossQueryBias, x.q_bias)});
    steps.push_back({StepKind::kCrossAttention, i, Slot::kQuery, Slot::kHeads});
    finish({StepKind::kLinear, i, Slot::kHeads, Slot::kNone, Role::kCrossOutput,
            bias(Role::kCrossOutputBias, x.o_bias)},
           Role::kNone, "");
  }

  void mlp(std::int64_t i) {
    steps.push_back({StepKind::kNorm, i, Slot::kHidden, Slot::kNormed, Role::kMlpNorm,
                     bias(Role::kMlpNormBias, spec.mlp_norm_bias)});
    if (spec.is_moe()) {
      finish({StepKind::kExperts, i, Slot::kNormed, Slot::kNone, Role::kRouter}, Role::kMlpPostNorm,
             spec.mlp_post_norm);
      return;
    }
    if (!spec.is_gated()) {
      steps.push_back({StepKind::kLinear, i, Slot::kNormed, Slot::kInner, Role::kUp,
                       bias(Role::kUpBias, spec.fc1_bias), Slot::kNone, true});
    } else if (spec.activation == MlpActivation::kSilu) {
      steps.push_back({StepKind::kSwiglu, i, Slot::kNormed, Slot::kInner, Role::kUp});
    } else {
      steps.push_back({StepKind::kLinear, i, Slot::kNormed, Slot::kPair, Role::kUp});
      steps.push_back({StepKind::kGeglu, i, Slot::kPair, Slot::kInner});
    }
    finish({StepKind::kLinear, i, Slot::kInner, Slot::kNone, Role::kDown,
            bias(Role::kDownBias, spec.fc2_bias)},
           Role::kMlpPostNorm, spec.mlp_post_norm);
  }

  void head() {
    if (spec.is_encoder()) {
      steps.push_back({StepKind::kNorm, -1, Slot::kHidden, Slot::kSelected, Role::kFinalNorm,
                       bias(Role::kFinalNormBias, spec.final_norm_bias)});
      return;
    }
    steps.push_back({StepKind::kSelect, -1, Slot::kHidden, Slot::kSelected});
    steps.push_back({StepKind::kNorm, -1, Slot::kSelected, Slot::kSelected, Role::kFinalNorm,
                     bias(Role::kFinalNormBias, spec.final_norm_bias)});
    const Role matrix = config.tie_word_embeddings ? Role::kEmbedding : Role::kHead;
    steps.push_back({StepKind::kLinear, -1, Slot::kSelected, Slot::kLogits, matrix});
    if (config.final_softcap > 0.0)
      steps.push_back({StepKind::kSoftcap, -1, Slot::kLogits, Slot::kLogits});
  }

  static Role bias(Role role, const std::string& tensor) {
    return tensor.empty() ? Role::kNone : role;
  }
};

std::string norm_text(const Step& step, const ModelSpec& spec) {
  const bool rms = spec.norm == NormKind::kRms;
  std::string text = cat(rms ? "rmsnorm(" : "layernorm(", to_string(step.in), ", ");
  if (spec.norm_offset != 0.0) text += cat(spec.norm_offset, " + ");
  text += to_string(step.weight);
  if (step.bias != Role::kNone) text += cat(", ", to_string(step.bias));
  return text + ")";
}

std::string linear_text(const Step& step, const ModelSpec& spec) {
  const std::string in = step.norm == Role::kNone
                             ? to_string(step.in)
                             : norm_text({StepKind::kNorm, step.layer, step.in, Slot::kNone,
                                          step.norm, step.norm_bias},
                                         spec);
  std::string text = cat(in, " @ ", to_string(step.weight), "^T");
  if (step.bias != Role::kNone) text += cat(" + ", to_string(step.bias));
  if (step.gelu) text = cat("gelu(", text, ")");
  if (step.residual != Slot::kNone) text += cat(" + ", to_string(step.residual));
  return text;
}

std::string attention_text(const Step& step, const ModelConfig& c) {
  std::string text = cat("attention(", to_string(step.in), ", cache");
  if (c.has_window[static_cast<std::size_t>(step.layer)]) text += cat(", window=", c.window);
  if (c.attention_softcap > 0.0) text += cat(", softcap=", c.attention_softcap);
  if (c.attention_scale > 0.0) text += cat(", scale=", c.attention_scale);
  return text + ")";
}

std::string kv_text(const Step& step, const ModelSpec& spec, const ModelConfig& c) {
  std::string text = cat("write(", to_string(step.in));
  if (!spec.q_norm.empty()) text += ", q_norm, k_norm";
  if (spec.use_rope)
    text += c.has_window[static_cast<std::size_t>(step.layer)] ? ", local_rope" : ", rope";
  return text + ")";
}

std::string value_text(const Step& step, const ModelSpec& spec, const ModelConfig& c) {
  switch (step.kind) {
    case StepKind::kEmbed:
      return c.embedding_scale == 1.0 ? "embedding[tokens]"
                                      : cat("embedding[tokens] * ", c.embedding_scale);
    case StepKind::kConvolve: return "gelu(conv2(gelu(conv1(mel))))^T";
    case StepKind::kAddPositions: return cat(to_string(step.out), " + positions[position]");
    case StepKind::kNorm: return norm_text(step, spec);
    case StepKind::kLinear: return linear_text(step, spec);
    case StepKind::kSwiglu: return cat("swiglu(", linear_text(step, spec), ")");
    case StepKind::kGeglu: return cat("geglu(", to_string(step.in), ")");
    case StepKind::kWriteKv: return kv_text(step, spec, c);
    case StepKind::kAttention: return attention_text(step, c);
    case StepKind::kSelfAttention: return cat("attention(", to_string(step.in), ")");
    case StepKind::kWriteCross: return cat("write(", to_string(step.in), ")");
    case StepKind::kCrossAttention: return cat("attention(", to_string(step.in), ", cross cache)");
    case StepKind::kAdd: return cat(to_string(step.out), " + ", to_string(step.in));
    case StepKind::kExperts:
      return cat("experts(", to_string(step.in), ", ", c.experts_per_token, " of ", c.num_experts,
                 ")", step.residual != Slot::kNone ? " + hidden" : "");
    case StepKind::kSelect: return cat(to_string(step.in), "[rows]");
    case StepKind::kSoftcap: return cat("softcap(", to_string(step.in), ", ", c.final_softcap, ")");
  }
  return "";
}

}  // namespace

const char* to_string(Slot slot) {
  static constexpr const char* kNames[kNumSlots] = {
      "none",     "hidden", "normed", "qkv",   "query",    "heads", "source",
      "cross_kv", "pair",   "inner",  "delta", "selected", "logits"};
  return kNames[static_cast<int>(slot)];
}

ModelPlan plan_model(const ModelSpec& spec, const ModelConfig& config) {
  ModelPlan plan;
  Planner planner{spec, config, plan.steps};
  if (spec.is_encoder())
    plan.steps.push_back({StepKind::kConvolve, -1, Slot::kNone, Slot::kHidden, Role::kConv1});
  else
    plan.steps.push_back({StepKind::kEmbed, -1, Slot::kNone, Slot::kHidden, Role::kEmbedding});
  if (!spec.position_embed.empty())
    plan.steps.push_back(
        {StepKind::kAddPositions, -1, Slot::kHidden, Slot::kHidden, Role::kPositions});
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    planner.attention(i);
    if (spec.has_cross()) planner.cross(i);
    planner.mlp(i);
  }
  planner.head();
  return plan;
}

ModelPlan plan_source(const ModelSpec& spec, const ModelConfig& config) {
  ModelPlan plan;
  if (!spec.has_cross()) return plan;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    plan.steps.push_back({StepKind::kLinear, i, Slot::kSource, Slot::kCrossKv, Role::kCrossKv,
                          Planner::bias(Role::kCrossKvBias, spec.cross.v_bias)});
    plan.steps.push_back({StepKind::kWriteCross, i, Slot::kCrossKv, Slot::kNone});
  }
  return plan;
}

ModelPlan fuse_norms(const ModelPlan& plan) {
  ModelPlan fused;
  for (const Step& step : plan.steps) {
    const bool is_linear = step.kind == StepKind::kLinear || step.kind == StepKind::kSwiglu;
    const Step* const last = fused.steps.empty() ? nullptr : &fused.steps.back();
    if (!is_linear || last->kind != StepKind::kNorm || last->out != step.in) {
      fused.steps.push_back(step);
      continue;
    }
    Step whole = step;
    whole.in = last->in;
    whole.norm = last->weight;
    whole.norm_bias = last->bias;
    fused.steps.back() = whole;
  }
  return fused;
}

std::int64_t slot_width(Slot slot, const ModelSpec& spec, const ModelConfig& c) {
  switch (slot) {
    case Slot::kNone: return 0;
    case Slot::kHidden:
    case Slot::kNormed:
    case Slot::kDelta:
    case Slot::kSelected: return c.hidden_size;
    case Slot::kQkv: return c.q_size() + 2 * c.kv_size();
    case Slot::kQuery:
    case Slot::kHeads: return c.q_size();
    case Slot::kSource: return spec.has_cross() ? c.hidden_size : 0;
    case Slot::kCrossKv: return spec.has_cross() ? 2 * c.kv_size() : 0;
    case Slot::kPair: return spec.is_gated() ? 2 * c.intermediate_size : 0;
    case Slot::kInner: return c.intermediate_size;
    case Slot::kLogits: return c.vocab_size;
  }
  return 0;
}

std::string to_string(const ModelPlan& plan, const ModelSpec& spec, const ModelConfig& config) {
  std::string text;
  for (const Step& step : plan.steps) {
    if (step.layer >= 0) text += cat("layer ", step.layer, ": ");
    const bool writes = step.kind == StepKind::kWriteKv;
    const std::string to = step.kind == StepKind::kWriteCross
                               ? "cross cache"
                               : cat(to_string(step.out), writes ? ", cache" : "");
    text += cat(to, " = ", value_text(step, spec, config), "\n");
  }
  return text;
}

}  // namespace gpk::llm
