// Gathers elements of rows by index.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops::sorting {

// out[r, j] = data[r, index[r, j]] for j < count; indices also go to index_out (int64). Either
// output may be omitted. index: position_dtype or int64, rows of index_len.
struct RowGather {
  Array data;
  Array index;
  std::int64_t rows = 0;
  std::int64_t len = 0;
  std::int64_t index_len = 0;
  std::int64_t count = 0;
  std::optional<Array> out = {};
  std::optional<Array> index_out = {};
};
void gather_rows(const RowGather& gather);

}  // namespace gpk::ops::sorting
