// Which tensors of the files make up which weights of a model: pure, from its spec and config.
// Projections that are multiplied with the same rows are one matrix: q, k, v; gate and up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/shape.h"
#include "llm/model_config.h"

namespace gpk::llm {

enum class Role : std::uint8_t {
  kNone,
  kEmbedding,
  kPositions,
  kFinalNorm,
  kFinalNormBias,
  kHead,
  // By layer:
  kAttentionNorm,
  kAttentionNormBias,
  kQkv,
  kQkvBias,  // 0 where the files have none
  kQNorm,
  kKNorm,
  kOutput,
  kOutputBias,
  kAttentionPostNorm,
  kCrossNorm,
  kCrossNormBias,
  kCrossQuery,
  kCrossQueryBias,
  kCrossKv,  // k rows, then v rows
  kCrossKvBias,
  kCrossOutput,
  kCrossOutputBias,
  kMlpNorm,
  kMlpNormBias,
  kUp,  // gate rows, then up rows; of a plain MLP its first layer
  kUpBias,
  kDown,
  kDownBias,
  kMlpPostNorm,
  kRouter,
  kExpertsUp,    // [experts, 2 * intermediate, hidden]
  kExpertsDown,  // [experts, hidden, intermediate]
  // Of an encoder:
  kConv1,  // [out, in, taps]
  kConv1Bias,
  kConv2,
  kConv2Bias,
};
inline constexpr int kNumRoles = static_cast<int>(Role::kConv2Bias) + 1;
const char* to_string(Role role);

struct WeightPart {
  std::string tensor;
  Dims shape;               // in the file
  std::int64_t row = 0;     // of the weight's rows, the first one that it fills
  std::int64_t matrix = 0;  // expert
};

struct Weight {
  Role role;
  std::int64_t layer;       // -1: none
  Dims shape;               // [n, k], [n], [experts, n, k] or [out, in, taps]
  bool transposed = false;  // parts are [k, n]
  std::vector<WeightPart> parts;
};

// In the order in which a forward pass needs them. A tied head has no weight of its own. Elements
// that no part fills are 0.
std::vector<Weight> weight_layout(const ModelSpec& spec, const ModelConfig& config);

// The tensors of a folder against a layout: throws InvalidArgument that names what is missing, left
// over or of another shape. `prefix` receives the spec's prefix where names begin with it.
void check_tensors(const std::vector<Weight>& layout, const ModelSpec& spec,
                   const std::map<std::string, Dims>& tensors, std::string& prefix);

}  // namespace gpk::llm
