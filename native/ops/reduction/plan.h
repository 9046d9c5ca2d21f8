// How a reduction is laid out on the GPU. Pure functions.
#pragma once

#include <string>

#include "ops/reduction/layout.h"

namespace gpk::ops::reduction {

enum class ReduceKernel : std::uint8_t {
  kGeneral,   // any layout
  kRows,      // reduced elements contiguous in memory
  kColumns,   // results contiguous, aligned to 16 bytes
  kEvenRows,  // rows that are whole numbers of aligned 16-byte accesses
};

struct ReducePlan {
  ReduceKernel kernel = ReduceKernel::kGeneral;
  unsigned block[2] = {1, 1};
  unsigned num_tiles = 1;      // grid x
  unsigned num_splits = 1;     // grid y: parts of one reduction, merged by the last block
  std::int64_t per_split = 0;  // general, columns: reduced elements of a part
  std::int64_t segments = 0;   // rows: pieces of a row, each contiguous
  int group = 0;               // rows: threads that share one
  int lanes = 0;               // rows: threads that share a segment
  bool short_rows = false;     // rows: one access per thread and row
  friend bool operator==(const ReducePlan&, const ReducePlan&) = default;
};
inline constexpr int kReduceBlock = kernels::ReduceArgs::kBlock;
// A split reduction has at most this many tiles.
inline constexpr int kMaxSplitTiles = 4096;

// `exact`: rows and columns kernels exist for the dtype. `alignment` of the first element, in
// bytes.
ReducePlan plan_reduce(const ReduceLayout& layout, std::size_t item_bytes, std::size_t alignment,
                       bool exact, int num_sms);
std::string to_string(const ReducePlan& plan);

}  // namespace gpk::ops::reduction
