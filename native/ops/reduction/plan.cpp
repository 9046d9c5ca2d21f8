#include "ops/reduction/plan.h"

#include <algorithm>
#include <cstdlib>

#include "base/ceil_div.h"
#include "base/text.h"

namespace gpk::ops::reduction {
namespace {

constexpr std::int64_t kBlock = kReduceBlock;
constexpr std::int64_t kAccessBytes = 16;
// Blocks per multiprocessor that are resident at once: one wave of equal parts.
constexpr std::int64_t kRowBlocksPerSm = 3;
constexpr std::int64_t kColumnBlocksPerSm = 2;
// Threads side by side, at most: what shared memory has room for.
constexpr std::int64_t kMaxAcross = kReduceBlock / 2;

// The kernel for even rows counts in 32 bits.
constexpr std::int64_t kMaxEvenRow = std::int64_t{1} << 30;
// Rows of at most so many accesses: one per thread.
constexpr std::int64_t kShortRow = 8;

std::int64_t ceil_pow2(std::int64_t x) {
  std::int64_t p = 1;
  while (p < x) p *= 2;
  return p;
}

// Splits so that `tiles` tiles fill the GPU, each with at least `unit` reduced elements.
void split(ReducePlan& plan, std::int64_t tiles, std::int64_t reduced, std::int64_t unit,
           std::int64_t wanted_blocks) {
  plan.num_tiles = static_cast<unsigned>(tiles);
  const std::int64_t most = std::max<std::int64_t>(ceil_div(reduced, unit), 1);
  const std::int64_t splits =
      tiles > kMaxSplitTiles ? 1 : std::clamp<std::int64_t>(wanted_blocks / tiles, 1, most);
  plan.per_split = ceil_div(ceil_div(std::max<std::int64_t>(reduced, 1), splits), unit) * unit;
  plan.num_splits =
      static_cast<unsigned>(std::max<std::int64_t>(ceil_div(reduced, plan.per_split), 1));
}

// Whether every access of the columns kernel is 16 aligned bytes.
bool columns_fit(const ReduceLayout& layout, std::int64_t item, std::size_t alignment) {
  const int last = layout.num_kept - 1;
  if (last < 0 || layout.kept_in[last] != 1) return false;
  std::int64_t bits = static_cast<std::int64_t>(alignment) | layout.kept_size[last] * item;
  for (int i = 0; i < last; ++i) bits |= layout.kept_in[i] * item;
  for (int i = 0; i < layout.num_reduced; ++i) bits |= layout.reduced_in[i] * item;
  return bits % kAccessBytes == 0;
}

ReducePlan plan_columns(const ReduceLayout& layout, std::int64_t item, int num_sms) {
  ReducePlan plan;
  plan.kernel = ReduceKernel::kColumns;
  const std::int64_t unroll = item == 1 ? 4 : 8;
  const std::int64_t columns = layout.kept_size[layout.num_kept - 1];
  const std::int64_t accesses = columns * item / kAccessBytes;
  // Threads along the reduction as far as each has a full load of rows.
  std::int64_t y = std::clamp<std::int64_t>(layout.reduced / unroll, 1, kBlock);
  const std::int64_t across = std::clamp<std::int64_t>(kBlock / ceil_pow2(y), 16, kMaxAcross);
  const std::int64_t x = std::min(accesses, across);
  y = std::min(y, kBlock / x);
  plan.block[0] = static_cast<unsigned>(x);
  plan.block[1] = static_cast<unsigned>(y);
  const std::int64_t tiles = layout.kept / columns * ceil_div(accesses, x);
  split(plan, tiles, layout.reduced, y * unroll, num_sms * kColumnBlocksPerSm);
  return plan;
}

// Threads that share a row of so many accesses: as many as make one load of it, up to a block.
std::int64_t row_group(const ReduceLayout& layout, std::int64_t accesses, std::int64_t unroll,
                       int num_sms) {
  if (accesses <= kShortRow) return ceil_pow2(accesses);
  std::int64_t group = std::clamp<std::int64_t>(ceil_pow2(ceil_div(accesses, unroll)), 4, kBlock);
  while (group < kBlock && layout.kept * group < std::int64_t{num_sms} * 1024 && group < accesses)
    group *= 2;
  return group;
}

ReducePlan plan_rows(const ReduceLayout& layout, std::int64_t item, std::size_t alignment,
                     int num_sms) {
  ReducePlan plan;
  plan.kernel = ReduceKernel::kRows;
  const int last = layout.num_reduced - 1;
  const std::int64_t vec = kAccessBytes / item;
  const std::int64_t unroll = item == 1 ? 2 : 4;
  std::int64_t bits = static_cast<std::int64_t>(alignment);
  for (int i = 0; i < layout.num_kept; ++i) bits |= layout.kept_in[i] * item;
  const bool aligned = bits % kAccessBytes == 0 && last == 0;
  const std::int64_t n = layout.reduced_size[last];
  plan.segments = layout.reduced / n;
  const std::int64_t per_segment = ceil_div(n + (aligned ? 0 : vec - 1), vec);
  const std::int64_t accesses = per_segment * plan.segments;
  const std::int64_t group = row_group(layout, accesses, unroll, num_sms);
  plan.short_rows = accesses <= kShortRow && last == 0 && layout.num_kept <= 1;
  plan.group = static_cast<int>(group);
  plan.lanes = static_cast<int>(last == 0 ? group : std::min(group, ceil_pow2(per_segment)));
  plan.block[0] = static_cast<unsigned>(kBlock);
  const std::int64_t per_block = kBlock / group * (plan.short_rows ? unroll : 1);
  plan.num_tiles = static_cast<unsigned>(ceil_div(layout.kept, per_block));
  if (group == kBlock && plan.num_tiles <= kMaxSplitTiles) {
    const std::int64_t most = last == 0 ? ceil_div(accesses, group * unroll)
                                        : ceil_div(plan.segments, group / plan.lanes);
    plan.num_splits = static_cast<unsigned>(
        std::clamp<std::int64_t>(num_sms * kRowBlocksPerSm / plan.num_tiles, 1, most));
  }
  if (aligned && n % vec == 0 && n <= kMaxEvenRow && layout.num_kept <= 1 && !plan.short_rows &&
      plan.num_splits == 1)
    plan.kernel = ReduceKernel::kEvenRows;
  return plan;
}

ReducePlan plan_general(const ReduceLayout& layout, int num_sms) {
  ReducePlan plan;
  constexpr std::int64_t kUnroll = 8;
  const bool along_kept =
      layout.num_reduced == 0 ||
      (layout.num_kept > 0 && std::abs(layout.kept_in[layout.num_kept - 1]) <=
                                  std::abs(layout.reduced_in[layout.num_reduced - 1]));
  std::int64_t x = 1;
  std::int64_t y = 1;
  if (along_kept) {
    y = std::clamp<std::int64_t>(ceil_pow2(layout.reduced / kUnroll), 1, kBlock);
    x = std::min(ceil_pow2(layout.kept), std::clamp<std::int64_t>(kBlock / y, 32, kMaxAcross));
    y = std::min(y, kBlock / x);
  } else {
    y = std::clamp<std::int64_t>(ceil_pow2(layout.reduced), 1, kBlock);
    x = std::min({ceil_pow2(layout.kept), kBlock / y, kMaxAcross});
  }
  plan.block[0] = static_cast<unsigned>(x);
  plan.block[1] = static_cast<unsigned>(y);
  split(plan, ceil_div(layout.kept, x), layout.reduced, y * kUnroll, num_sms * kRowBlocksPerSm);
  return plan;
}

}  // namespace

ReducePlan plan_reduce(const ReduceLayout& layout, std::size_t item_bytes, std::size_t alignment,
                       bool exact, int num_sms) {
  const auto item = static_cast<std::int64_t>(item_bytes);
  if (exact && layout.reduced > 1) {
    const int last = layout.num_reduced - 1;
    const std::int64_t segment = layout.reduced_size[last] * item;
    if (layout.reduced_in[last] == 1 && (last == 0 || segment >= 4 * kAccessBytes))
      return plan_rows(layout, item, alignment, num_sms);
    if (columns_fit(layout, item, alignment)) return plan_columns(layout, item, num_sms);
  }
  return plan_general(layout, num_sms);
}

std::string to_string(const ReducePlan& plan) {
  constexpr const char* kNames[] = {"general", "rows", "columns", "even_rows"};
  return cat("reduce(", kNames[static_cast<int>(plan.kernel)], ", block=", plan.block[0], "x",
             plan.block[1], ", tiles=", plan.num_tiles, ", splits=", plan.num_splits,
             ", per_split=", plan.per_split, ", segments=", plan.segments, ", group=", plan.group,
             ", lanes=", plan.lanes, ", short_rows=", plan.short_rows, ")");
}

}  // namespace gpk::ops::reduction
