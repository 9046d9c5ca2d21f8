// The GPU sorting engine: stable sorts of the rows of a contiguous array.
#pragma once

#include <optional>
#include <string>

#include "core/array.h"
#include "kernels/args/sorting.h"

namespace gpk::ops::sorting {

// How elements map to keys. For a complex dtype: kind kComplex, bits of one part.
kernels::KeyOrder key_order(DType dtype, bool descending = false);

// log2 of the bytes of one element.
int width_bits(DType dtype);

// A sort of `rows` rows of `len` elements each. At least one output is set.
struct RowSort {
  Array keys;  // contiguous, real or complex, rows * len elements
  std::int64_t rows = 0;
  std::int64_t len = 0;
  bool descending = false;
  std::optional<Array> positions = {};  // payload of the keys; default: 0, 1, ... per row
  std::optional<Array> keys_out = {};   // contiguous, not overlapping keys
  // position_dtype(len) or int64; contiguous. Complex keys with positions: the positions' dtype.
  std::optional<Array> positions_out = {};
};

// uint32 below 2**32 elements, else int64.
DType position_dtype(std::int64_t len);

// Launches the sort; complex keys take several.
void sort_rows(const RowSort& sort, const char* op);

// How rows are sorted: each within a block, or all together by radix passes.
struct RowSortPlan {
  bool in_block = false;
  // in_block
  int segment_bits = 0;
  unsigned threads = 0;
  std::int64_t rows_per_block = 0;
  // passes
  int values = 0;  // 0: keys only; 1, 2: with 32-, 64-bit positions
  int tile = 0;
  int num_passes = 0;
  std::int64_t rows_per_group = 0;  // sorted together
  std::int64_t portion = 0;         // keys of a row per launch
  std::int64_t num_portions = 0;
  std::int64_t tiles_per_row = 0;  // in a full portion
  friend bool operator==(const RowSortPlan&, const RowSortPlan&) = default;
};
RowSortPlan plan_row_sort(int width_bits, bool with_positions, std::int64_t rows, std::int64_t len);
std::string to_string(const RowSortPlan& plan);

}  // namespace gpk::ops::sorting
