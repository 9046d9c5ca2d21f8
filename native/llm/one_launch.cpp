#include "llm/one_launch.h"

#include <cmath>
#include <optional>
#include <utility>

namespace gpk::llm {
namespace {

std::optional<ops::DecoderWeights> decoder_weights(const Model& model, const KvPages& pages,
                                                   const RopeTable& rope, std::int64_t max_length) {
  const ModelSpec& spec = model.spec();
  const ModelConfig& config = model.config();
  const auto has = [&](Role role) { return model.weight(role, 0).has_value(); };
  if (spec.norm != NormKind::kRms || spec.activation != MlpActivation::kSilu || spec.is_moe() ||
      !spec.is_gated() || config.window != 0 || config.attention_softcap != 0.0 ||
      config.final_softcap != 0.0 || has(Role::kAttentionPostNorm) || has(Role::kMlpPostNorm) ||
      has(Role::kOutputBias) || has(Role::kUpBias) || has(Role::kDownBias) || model.evictable())
    return std::nullopt;
  std::vector<ops::DecoderLayer> layers;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const auto of = [&](Role role) { return *model.weight(role, i); };
    layers.push_back({of(Role::kAttentionNorm), of(Role::kQkv), model.weight(Role::kQkvBias, i),
                      model.weight(Role::kQNorm, i), model.weight(Role::kKNorm, i),
                      of(Role::kOutput), of(Role::kMlpNorm), of(Role::kUp), of(Role::kDown),
                      pages.k(i), pages.v(i)});
  }
  const auto& head = model.weight(Role::kHead, -1);
  const double scale = config.attention_scale != 0.0
                           ? config.attention_scale
                           : 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  return ops::DecoderWeights{std::move(layers),
                             *model.weight(Role::kFinalNorm, -1),
                             head ? *head : *model.weight(Role::kEmbedding, -1),
                             rope.cos,
                             rope.sin,
                             config.num_heads,
                             config.num_kv_heads,
                             config.head_dim,
                             config.intermediate_size,
                             max_length,
                             config.norm_eps,
                             spec.norm_offset,
                             scale};
}

}  // namespace

std::unique_ptr<ops::DecodeLayers> make_decode_layers(const Model& model, const KvPages& pages,
                                                      const RopeTable& rope,
                                                      std::int64_t max_length) {
  std::optional<ops::DecoderWeights> weights = decoder_weights(model, pages, rope, max_length);
  if (!weights || !ops::can_decode_layers(*weights)) return nullptr;
  return std::make_unique<ops::DecodeLayers>(std::move(*weights));
}

}  // namespace gpk::llm
