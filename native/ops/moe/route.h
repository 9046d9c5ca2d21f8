// Which experts a token goes to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/array.h"

namespace gpk::ops {

enum class MoeScores : std::uint8_t { kSoftmax, kSigmoid, kLogits };
// "softmax" or "sigmoid"; throws InvalidArgument for anything else.
MoeScores moe_scores_named(std::string_view text, const char* op);

struct MoeRouteOptions {
  MoeScores scores = MoeScores::kSoftmax;
  bool renormalize = false;
  std::int64_t num_groups = 1;
  std::int64_t top_groups = 1;
  std::optional<Array> bias;  // float32 [num_experts]
  double scale = 1.0;
};

struct MoeRouting {
  Array weights;  // float32 [tokens, top_k]
  Array experts;  // int32 [tokens, top_k]
};

// logits [tokens, num_experts], float16, bfloat16 or float32. Throws InvalidArgument.
MoeRouting moe_route(const Array& logits, std::int64_t top_k, const MoeRouteOptions& options,
                     const char* op = "moe_route");

}  // namespace gpk::ops
