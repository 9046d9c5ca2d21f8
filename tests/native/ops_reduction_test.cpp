// Layouts, plans, dtypes and kernel variants of reductions and scans.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "core/view.h"
#include "ops/op.h"
#include "ops/reduction/layout.h"
#include "ops/reduction/plan.h"
#include "ops/reduction/reduce.h"
#include "ops/reduction/scan.h"
#include "ops/reduction/variants.h"

namespace gpk::ops::reduction {
namespace {

constexpr Device kCpu{DeviceKind::kCpu, 0};
constexpr int kSms = 132;

// Shape and strides only: nothing here reads elements.
Array make(Dims shape) {
  static const Array one = Array::empty({1}, DType::kFloat32, kCpu);
  Dims strides = contiguous_strides(shape);
  return {std::move(shape), std::move(strides), DType::kFloat32, one.buffer(), 0};
}

ReduceLayout layout_of(const Array& x, std::uint32_t axes, bool ordered = false) {
  std::vector<std::int64_t> kept;
  for (int axis = 0; axis < x.ndim(); ++axis)
    if ((axes >> axis & 1u) == 0) kept.push_back(x.shape()[axis]);
  const Collapsed found =
      collapse(x, axes, make(Dims(std::span<const std::int64_t>(kept))), ordered);
  EXPECT_TRUE(found.fits);
  return found.layout;
}

TEST(CollapseTest, ContiguousAxesMerge) {
  const Array x = make({4, 5, 6});
  const ReduceLayout all = layout_of(x, 0b111);
  EXPECT_EQ(all.num_kept, 0);
  EXPECT_EQ(all.num_reduced, 1);
  EXPECT_EQ(all.reduced_size[0], 120);
  EXPECT_EQ(all.reduced_in[0], 1);
  const ReduceLayout last = layout_of(x, 0b110);
  EXPECT_EQ(last.num_kept, 1);
  EXPECT_EQ(last.kept_in[0], 30);
  EXPECT_EQ(last.reduced_size[0], 30);
  const ReduceLayout outer = layout_of(x, 0b101);
  EXPECT_EQ(outer.num_reduced, 2);
  EXPECT_EQ(outer.reduced_in[0], 30);
  EXPECT_EQ(outer.reduced_in[1], 1);
}

TEST(CollapseTest, OrderOfMemoryUnlessIndicesCount) {
  const Array x = transpose(make({4, 5}), "test");
  const ReduceLayout free = layout_of(x, 0b11);
  EXPECT_EQ(free.num_reduced, 1);
  EXPECT_EQ(free.reduced_in[0], 1);
  const ReduceLayout ordered = layout_of(x, 0b11, true);
  EXPECT_EQ(ordered.num_reduced, 2);
  EXPECT_EQ(ordered.reduced_in[0], 1);
  EXPECT_EQ(ordered.reduced_in[1], 5);
}

TEST(CollapseTest, NegativeStridesTurnRound) {
  const Array x = slice_axis(make({10}), 0, 9, 10, -1);
  const Collapsed found = collapse(x, 1, make({}), false);
  EXPECT_EQ(found.in_offset, -9);
  EXPECT_EQ(found.layout.reduced_in[0], 1);
  EXPECT_EQ(collapse(x, 1, make({}), true).in_offset, 0);
}

TEST(CollapseTest, EmptyAndTooManyDimensions) {
  const ReduceLayout none = layout_of(make({3, 0}), 0b10);
  EXPECT_EQ(none.kept, 3);
  EXPECT_EQ(none.reduced, 0);
  EXPECT_EQ(none.num_kept, 1);
  const Dims many = Dims::filled(14, 2);
  EXPECT_FALSE(collapse(make(many), 0b01010101010101, make(Dims::filled(7, 2)), false).fits);
}

ReducePlan plan_of(Dims shape, std::uint32_t axes, std::size_t item, bool exact = true) {
  return plan_reduce(layout_of(make(std::move(shape)), axes), item, 256, exact, kSms);
}

TEST(PlanReduceTest, WholeArrayFillsTheGpuOnce) {
  const ReducePlan plan = plan_of({1 << 28}, 1, 4);
  EXPECT_EQ(plan.kernel, ReduceKernel::kRows);
  EXPECT_EQ(plan.group, kReduceBlock);
  EXPECT_EQ(plan.num_tiles, 1u);
  EXPECT_EQ(plan.num_splits, unsigned{kSms} * 3);
  EXPECT_EQ(plan_of({4096}, 1, 4).num_splits, 1u);
}

TEST(PlanReduceTest, Rows) {
  const ReducePlan even = plan_of({8192, 4096}, 0b10, 2);
  EXPECT_EQ(even.kernel, ReduceKernel::kEvenRows);
  EXPECT_EQ(even.group, 128);
  EXPECT_EQ(even.num_splits, 1u);
  EXPECT_EQ(even.num_tiles, 8192u / 2);
  EXPECT_EQ(plan_of({8192, 4097}, 0b10, 2).kernel, ReduceKernel::kRows);
  const ReducePlan block = plan_of({4096, 32768}, 0b10, 2);
  EXPECT_EQ(block.group, 256);
  const ReducePlan brief = plan_of({100000, 8}, 0b10, 4);
  EXPECT_TRUE(brief.short_rows);
  EXPECT_EQ(brief.group, 2);
  EXPECT_EQ(brief.num_tiles, (100000u + 511) / 512);
  const ReducePlan few = plan_of({3, 1 << 24}, 0b10, 4);
  EXPECT_EQ(few.num_tiles, 3u);
  EXPECT_EQ(few.num_splits, unsigned{kSms});
}

TEST(PlanReduceTest, Columns) {
  const ReducePlan plan = plan_of({8192, 4096}, 0b01, 2);
  EXPECT_EQ(plan.kernel, ReduceKernel::kColumns);
  EXPECT_LE(plan.block[0] * plan.block[1], 256u);
  EXPECT_GT(plan.num_splits, 1u);
  EXPECT_GE(plan.per_split * plan.num_splits, 8192);
  EXPECT_LT(plan.per_split * (plan.num_splits - 1), 8192);
  // Rows that are not 16-byte aligned, and dtypes without specialised kernels.
  EXPECT_EQ(plan_of({8192, 4099}, 0b01, 2).kernel, ReduceKernel::kGeneral);
  EXPECT_EQ(plan_of({8192, 4096}, 0b01, 2, false).kernel, ReduceKernel::kGeneral);
}

// Every plan covers its reduction, and fits what kernels have room for.
TEST(PlanReduceTest, PlansAreSound) {
  for (const std::int64_t rows : {1, 2, 7, 33, 1000, 70000}) {
    for (const std::int64_t columns : {1, 2, 5, 16, 64, 129, 4096, 100000}) {
      for (const std::uint32_t axes : {0u, 1u, 2u, 3u}) {
        for (const std::size_t item : {1u, 2u, 4u, 8u, 16u}) {
          for (const bool exact : {false, true}) {
            const ReduceLayout layout = layout_of(make({rows, columns}), axes);
            const ReducePlan plan = plan_reduce(layout, item, 256, exact, kSms);
            const std::string text = to_string(plan);
            EXPECT_LE(plan.block[0] * plan.block[1], 256u) << text;
            EXPECT_GE(plan.num_splits, 1u) << text;
            if (plan.num_splits > 1) {
              EXPECT_LE(plan.num_tiles, unsigned{kMaxSplitTiles}) << text;
            }
            if (plan.kernel == ReduceKernel::kRows || plan.kernel == ReduceKernel::kEvenRows) {
              const std::int64_t unroll = item == 1 ? 2 : 4;
              const std::int64_t per_block =
                  kReduceBlock / plan.group * (plan.short_rows ? unroll : 1);
              EXPECT_GE(plan.num_tiles * per_block, layout.kept) << text;
              if (plan.num_splits > 1) {
                EXPECT_EQ(plan.group, kReduceBlock) << text;
              }
              if (plan.short_rows) {
                EXPECT_LE(plan.group, 32) << text;
              }
            } else {
              EXPECT_LE(plan.block[0], 128u) << text;
              EXPECT_GE(plan.per_split * plan.num_splits, layout.reduced) << text;
            }
          }
        }
      }
    }
  }
}

TEST(PlanScanTest, Kernels) {
  ScanShape shape;
  shape.n = 1 << 28;
  shape.exact = shape.aligned = true;
  shape.tile_elems = scan_tile_elems(DType::kFloat32, true);
  shape.num_sms = kSms;
  EXPECT_EQ(shape.tile_elems, 2048);
  const ScanPlan wave = plan_scan(shape);
  EXPECT_EQ(wave.kernel, ScanKernel::kChunks);
  EXPECT_LE(wave.num_chunks, 12 * kSms);
  EXPECT_EQ(wave.chunk % shape.tile_elems, 0);
  EXPECT_GE(wave.chunk * wave.num_chunks, shape.n);
  EXPECT_LT(wave.chunk * (wave.num_chunks - 1), shape.n);
  shape.lines = 1 << 20;
  shape.n = 1024;
  EXPECT_EQ(plan_scan(shape).kernel, ScanKernel::kRows);
  shape.exact = false;
  const ScanPlan lines = plan_scan(shape);
  EXPECT_EQ(lines.kernel, ScanKernel::kLines);
  EXPECT_EQ(lines.num_chunks, 1);
  shape.lines = 100;
  shape.n = 1 << 20;
  const ScanPlan chunks = plan_scan(shape);
  EXPECT_GT(chunks.num_chunks, 1);
  EXPECT_GE(chunks.chunk * chunks.num_chunks, shape.n);
  shape.n = 0;
  EXPECT_EQ(plan_scan(shape).num_chunks, 1);
}

TEST(ReduceDTypeTest, Rules) {
  EXPECT_EQ(reduce_dtype(OpId::sum, DType::kInt8, {}), DType::kInt64);
  EXPECT_EQ(reduce_dtype(OpId::sum, DType::kBool, {}), DType::kInt64);
  EXPECT_EQ(reduce_dtype(OpId::prod, DType::kUInt8, {}), DType::kUInt64);
  EXPECT_EQ(reduce_dtype(OpId::sum, DType::kBFloat16, {}), DType::kBFloat16);
  EXPECT_EQ(reduce_dtype(OpId::sum, DType::kInt8, DType::kFloat32), DType::kFloat32);
  EXPECT_EQ(reduce_dtype(OpId::mean, DType::kInt32, {}), DType::kFloat64);
  EXPECT_EQ(reduce_dtype(OpId::std, DType::kComplex64, {}), DType::kFloat32);
  EXPECT_EQ(reduce_dtype(OpId::max, DType::kUInt16, {}), DType::kUInt16);
  EXPECT_EQ(reduce_dtype(OpId::any, DType::kFloat64, {}), DType::kBool);
  EXPECT_EQ(reduce_dtype(OpId::argmin, DType::kFloat16, {}), DType::kInt64);
}

TEST(VariantsTest, DifferentAndFewBundled) {
  std::vector<jit::KernelSpec> specs;
  enumerate_reduction(specs);
  std::set<std::string> expressions;
  int bundled = 0;
  for (const auto& spec : specs) {
    EXPECT_TRUE(expressions.insert(spec.expression).second) << spec.expression;
    bundled += spec.bundled ? 1 : 0;
  }
  EXPECT_GE(bundled, 30);
  EXPECT_LE(bundled, 200);
}

// What the general kernel may be instantiated with is among the variants, for every functor and
// dtype.
TEST(VariantsTest, GeneralKernelForEverything) {
  const std::vector<Variant> all = all_variants();
  for (int f = 0; f < kNumFunctors; ++f) {
    for (const DTypeInfo& row : gpk::detail::kDTypes) {
      if (row.cuda_name == nullptr || info(row.dtype).bits < 8) continue;
      const auto functor = static_cast<Functor>(f);
      const bool real = functor == Functor::kVar || functor == Functor::kNanMean;
      const ResultClass result = real ? ResultClass::kReal : class_of(row.dtype);
      const Variant wanted{ReduceKernel::kGeneral, functor,
                           general_value(functor, row.dtype, result), DType::kBool};
      EXPECT_NE(std::find(all.begin(), all.end(), wanted), all.end()) << f << ' ' << row.name;
    }
  }
}

}  // namespace
}  // namespace gpk::ops::reduction
