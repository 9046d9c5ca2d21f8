// Running sums and products along an axis.
#pragma once

#include <optional>
#include <string>

#include "core/array.h"
#include "jit/builtin.h"
#include "kernels/args/reduction.h"
#include "ops/op.h"
#include "ops/reduction/variants.h"

namespace gpk::ops {

struct ScanOptions {
  std::optional<std::int64_t> axis;  // nullopt: over the elements in C order, as one row
  std::optional<DType> dtype;        // of the result; bool and integers become 64 bits wide
  std::optional<Array> out;          // result shape, a dtype the result can be cast to (same kind)
  bool include_initial = false;      // the neutral element comes first: one more along the axis
  const char* alias = nullptr;       // what messages call the op
};

// The GPK_SCAN lines of ops.def. Throws InvalidArgument: axis, dtypes, `out`.
Array scan(OpId op, const Array& x, const ScanOptions& options = {});

namespace reduction {

enum class ScanKernel : std::uint8_t {
  kLines,   // any strides, a thread per line or chunk of it
  kRows,    // contiguous rows, a warp per row
  kTotals,  // the totals of chunks of few long rows
  kChunks,  // those rows, a block per chunk
};

// What a plan depends on. Rows are lines with contiguous elements.
struct ScanShape {
  std::int64_t lines = 1;
  std::int64_t n = 0;
  bool exact = false;    // contiguous, and kernels for the dtype exist
  bool aligned = false;  // every row of both arrays starts on 16 bytes
  int tile_elems = 0;    // of scan_chunks for the dtype
  int num_sms = 1;
};

struct ScanPlan {
  ScanKernel kernel = ScanKernel::kLines;
  bool aligned = false;
  std::int64_t num_blocks = 0;
  std::int64_t chunk = 0;       // lines, chunks: elements of one
  std::int64_t num_chunks = 1;  // lines, chunks: of one line
  friend bool operator==(const ScanPlan&, const ScanPlan&) = default;
};
inline constexpr int kScanBlock = kernels::ScanArgs::kBlock;

ScanPlan plan_scan(const ScanShape& shape);
std::string to_string(const ScanPlan& plan);

// Whether rows and chunks kernels exist, and what they compute in.
std::optional<ValueType> exact_scan_value(bool product, DType in, DType out);
// Elements that a block scans at once.
int scan_tile_elems(DType in, bool aligned);

void enumerate_scan(std::vector<jit::KernelSpec>& specs);

}  // namespace reduction

}  // namespace gpk::ops
