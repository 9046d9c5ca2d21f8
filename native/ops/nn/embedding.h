// Rows of embedding tables.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct EmbeddingOptions {
  double scale = 1.0;
  std::optional<Array> position_table;  // [rows, dim], the dtype of the table or float32
  std::optional<Array> positions;       // int32 or int64, [..., seq] or [seq]
  std::int64_t start = 0;               // without positions: that of the first token
};

// scale * table[ids] + position_table[positions]. table is [vocabulary, dim] in float16, bfloat16
// or float32, ids are int32 or int64 [..., seq]. Rows that do not exist are reported as an index
// out of bounds. Throws InvalidArgument.
Array embedding(const Array& table, const Array& ids, const EmbeddingOptions& options,
                const std::optional<Array>& out);

}  // namespace gpk::ops
