// Sums of rows that were sorted by expert.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// out[t] = sum over j of weights[t, j] * rows[row_map[t, j]]: rows [n, width], float16, bfloat16 or
// float32; row_map int32, [tokens, top_k] or [tokens]; weights of that shape, float32 or the dtype
// of rows. Throws InvalidArgument.
Array moe_unpermute(const Array& rows, const Array& row_map, const std::optional<Array>& weights,
                    const std::optional<Array>& out, const char* op = "moe_unpermute");

}  // namespace gpk::ops
