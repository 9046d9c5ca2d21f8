#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/promote.h"
#include "ops/reduction/scan.h"

namespace gpk::ops::reduction {
namespace {

// Threads that keep a multiprocessor busy.
constexpr std::int64_t kThreadsPerSm = 2048;
constexpr std::int64_t kMinChunk = 32;
// Blocks per multiprocessor: whole waves, whether two, three, four or six fit at once.
constexpr std::int64_t kChunkBlocksPerSm = 12;

template <int kItem>
int tile_elems(bool aligned) {
  using Aligned = kernels::ScanTile<kItem, true>;
  using Unaligned = kernels::ScanTile<kItem, false>;
  return kScanBlock *
         (aligned ? Aligned::kVec * Aligned::kUnroll : Unaligned::kVec * Unaligned::kUnroll);
}

}  // namespace

std::optional<ValueType> exact_scan_value(bool product, DType in, DType out) {
  const bool real = is_float(in) && in == out;
  if (product) {
    if (real && info(in).bits >= 32) return ValueType::kDouble;
    return std::nullopt;
  }
  if (real) return in == DType::kFloat64 ? ValueType::kDouble : ValueType::kFloat;
  if (out != DType::kInt64 && out != DType::kUInt64) return std::nullopt;
  switch (in) {
    case DType::kBool:
    case DType::kUInt8: return ValueType::kInt;
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt64: return ValueType::kLongLong;
    default: return std::nullopt;
  }
}

int scan_tile_elems(DType in, bool aligned) {
  switch (itemsize(in)) {
    case 1: return tile_elems<1>(aligned);
    case 2: return tile_elems<2>(aligned);
    case 4: return tile_elems<4>(aligned);
    case 8: return tile_elems<8>(aligned);
    default: return tile_elems<16>(aligned);
  }
}

ScanPlan plan_scan(const ScanShape& shape) {
  ScanPlan plan;
  if (shape.exact && shape.n > 0) {
    plan.aligned = shape.aligned;
    const std::int64_t rows_per_block = kScanBlock / 32;
    const bool many = shape.lines >= std::int64_t{shape.num_sms} * 16;
    if (many || shape.n <= shape.tile_elems / 4) {
      plan.kernel = ScanKernel::kRows;
      plan.num_blocks = ceil_div(shape.lines, rows_per_block);
    } else {
      plan.kernel = ScanKernel::kChunks;
      const std::int64_t tiles = ceil_div(shape.n, shape.tile_elems);
      const std::int64_t most =
          std::max(shape.num_sms * kChunkBlocksPerSm / shape.lines, std::int64_t{1});
      plan.chunk = ceil_div(tiles, std::min(most, tiles)) * shape.tile_elems;
      plan.num_chunks = ceil_div(shape.n, plan.chunk);
      plan.num_blocks = shape.lines * plan.num_chunks;
    }
    return plan;
  }
  const std::int64_t wanted = ceil_div(shape.num_sms * kThreadsPerSm, shape.lines);
  plan.chunk = std::max(ceil_div(std::max<std::int64_t>(shape.n, 1), wanted), kMinChunk);
  plan.num_chunks = std::max<std::int64_t>(ceil_div(shape.n, plan.chunk), 1);
  plan.num_blocks = ceil_div(shape.lines * plan.num_chunks, kScanBlock);
  return plan;
}

std::string to_string(const ScanPlan& plan) {
  constexpr const char* kNames[] = {"lines", "rows", "totals", "chunks"};
  return cat("scan(", kNames[static_cast<int>(plan.kernel)], ", aligned=", plan.aligned,
             ", blocks=", plan.num_blocks, ", chunk=", plan.chunk, ", chunks=", plan.num_chunks,
             ")");
}

}  // namespace gpk::ops::reduction
