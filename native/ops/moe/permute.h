// Rows sorted by expert.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct MoePermutation {
  Array rows;     // [tokens * top_k, n]
  Array sizes;    // int32 [num_experts]
  Array row_map;  // int32, as experts: the row of each choice
};

// x [tokens, n] of at most 4 bytes per element, experts int32 or int64, [tokens, top_k] or
// [tokens]. Stable: rows of one expert keep their order. Throws InvalidArgument.
MoePermutation moe_permute(const Array& x, const Array& experts, std::int64_t num_experts,
                           const std::optional<Array>& out, const char* op = "moe_permute");

// The order alone. `slots` (int32 or none): the choice, token * top_k + j, of each row.
struct MoeOrder {
  Array sizes;
  Array row_map;
  Array slots;
};
MoeOrder moe_order(const Array& experts, std::int64_t num_experts, const char* op);

}  // namespace gpk::ops
