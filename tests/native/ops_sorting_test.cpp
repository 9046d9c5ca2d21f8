// Plans and keys of the sorting family; its checks without a backend.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/elementwise/fill.h"
#include "ops/sorting/histogram.h"
#include "ops/sorting/kernels.h"
#include "ops/sorting/row_sort.h"
#include "ops/sorting/search.h"
#include "ops/sorting/sort.h"

namespace gpk::ops::sorting {
namespace {

constexpr Device kCpu{DeviceKind::kCpu, 0};

TEST(PlanRowSort, ShortRowsShareBlocks) {
  EXPECT_EQ(to_string(plan_row_sort(2, false, 1000, 5)),
            "row_sort(in_block, segment=8, threads=256, rows_per_block=256)");
  EXPECT_EQ(to_string(plan_row_sort(2, false, 1000, 2048)),
            "row_sort(in_block, segment=2048, threads=256, rows_per_block=1)");
  EXPECT_EQ(to_string(plan_row_sort(3, true, 2, 8192)),
            "row_sort(in_block, segment=8192, threads=1024, rows_per_block=1)");
}

TEST(PlanRowSort, OneRowGoesByPassesEarlier) {
  EXPECT_TRUE(plan_row_sort(2, false, 1, 4096).in_block);
  EXPECT_FALSE(plan_row_sort(2, false, 1, 4097).in_block);
  EXPECT_TRUE(plan_row_sort(2, false, 2, 4097).in_block);
  EXPECT_FALSE(plan_row_sort(2, false, 2, 8193).in_block);
}

TEST(PlanRowSort, PassesPerByteAndTilesOfTheVariant) {
  for (int width = 0; width < 4; ++width)
    for (const bool indexed : {false, true}) {
      const RowSortPlan plan = plan_row_sort(width, indexed, 1, 1 << 20);
      EXPECT_EQ(plan.num_passes, 1 << width);
      EXPECT_EQ(plan.tile, onesweep_shape(width, indexed ? 1 : 0).tile());
      EXPECT_EQ(plan.num_portions, 1);
      EXPECT_GE(plan.tiles_per_row * plan.tile, 1 << 20);
      EXPECT_LT((plan.tiles_per_row - 1) * plan.tile, 1 << 20);
    }
}

TEST(PlanRowSort, HugeRowsGoInPortionsWhoseCountsFit) {
  const std::int64_t n = (std::int64_t{1} << 33) + 1;
  const RowSortPlan plan = plan_row_sort(0, true, 1, n);
  EXPECT_EQ(plan.values, 2);
  EXPECT_GT(plan.num_portions, 1);
  EXPECT_LT(plan.portion, std::int64_t{1} << 30);
  EXPECT_EQ(plan.portion % plan.tile, 0);
  EXPECT_GE(plan.portion * plan.num_portions, n);
  EXPECT_LT(plan.portion * (plan.num_portions - 1), n);
  EXPECT_EQ(plan_row_sort(0, true, 1, (std::int64_t{1} << 32) - 1).values, 1);
}

TEST(PlanRowSort, ManyLongRowsGoInGroups) {
  const RowSortPlan plan = plan_row_sort(2, false, 1'000'000, 20'000);
  EXPECT_EQ(plan.tiles_per_row, (20'000 + plan.tile - 1) / plan.tile);
  EXPECT_LE(plan.rows_per_group * plan.tiles_per_row, 61440);
  EXPECT_GT(plan.rows_per_group, 1000);
  EXPECT_EQ(plan_row_sort(2, false, 3, 20'000).rows_per_group, 3);
}

TEST(KeyOrder, BitsOfInfinityAndNaN) {
  EXPECT_EQ(key_order(DType::kInt32).kind, kernels::KeyKind::kSigned);
  EXPECT_EQ(key_order(DType::kBool).kind, kernels::KeyKind::kUnsigned);
  const kernels::KeyOrder half = key_order(DType::kFloat16, true);
  EXPECT_EQ(half.inf, 0x7c00u);
  EXPECT_EQ(half.nan, 0x7e00u);
  EXPECT_EQ(half.descending, 1u);
  EXPECT_EQ(key_order(DType::kBFloat16).nan, 0x7fc0u);
  EXPECT_EQ(key_order(DType::kFloat32).nan, 0x7fc00000u);
  EXPECT_EQ(key_order(DType::kFloat64).nan, 0x7ff8000000000000u);
  EXPECT_EQ(key_order(DType::kComplex64).inf, 0x7f800000u);
  EXPECT_EQ(width_bits(DType::kInt8), 0);
  EXPECT_EQ(width_bits(DType::kComplex128), 4);
}

template <class Call>
std::string refused(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(CheckSorting, RefusesBeforeAnythingRuns) {
  const Array x = full({2, 3}, Scalar(true), DType::kFloat32, kCpu, "ones");
  EXPECT_EQ(refused([&] { topk(x, 4); }), "topk: k is 4, axis -1 has size 3");
  EXPECT_EQ(refused([&] { searchsorted(x, x, Side::kLeft); }),
            "searchsorted: x1 has shape (2, 3), expected one dimension");
  EXPECT_EQ(refused([&] { bincount(x, std::nullopt, 0); }),
            "bincount: x has dtype float32, expected integers");
  HistogramRequest request;
  request.num_bins = 0;
  EXPECT_EQ(refused([&] { histogram(x, request); }), "histogram: bins is 0, expected at least 1");
}

}  // namespace
}  // namespace gpk::ops::sorting
