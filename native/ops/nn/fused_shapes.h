// The shapes of a function of arrays that has ops over rows: what each op takes, and the result.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/array.h"
#include "ops/elementwise/elementwise.h"

namespace gpk::ops::nn {

// An expression by the inputs it is computed from, one bit each: its last axis is that of
// `columns`, or 1; its other axes are those of `arrays`.
struct Expression {
  std::uint32_t columns = 0;
  std::uint32_t arrays = 0;
};

// An argument of an op over rows.
struct RowUse {
  std::string op;  // "gate: softmax": what messages start with
  std::string argument;
  Expression of;
  bool is_vector = false;       // [width], as weights are
  bool needs_elements = false;  // rows are not empty
};

struct FusedShapes {
  Dims result;
  std::int64_t width = 0;  // of the rows; the result's last axis has it, or 1
  std::int64_t rows = 0;   // of the result
};

// Throws InvalidArgument that starts with `name` or the op. At least one use is no vector.
FusedShapes check_fused_rows(const char* name, std::span<const Operand> operands,
                             std::span<const RowUse> uses, const Expression& result);

// Axes of the rows: those but the last, the inner one first, merged where all arrays allow it.
struct RowAxes {
  static constexpr int kMaxArrays = 9;
  int count = 0;  // at least one
  std::int64_t size[kMaxRank];
  std::int64_t stride[kMaxRank][kMaxArrays];  // 0: broadcast
};
// Arrays (nullptr: stride 0) that broadcast to the rows of `shape`.
RowAxes merge_rows(const Dims& shape, std::span<const Array* const> arrays);

}  // namespace gpk::ops::nn
