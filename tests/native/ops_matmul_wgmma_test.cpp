// Plans of engine wgmma: pure values, no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/view.h"
#include "ops/matmul/wgmma_plan.h"

namespace gpk::ops::gemm {
namespace {

constexpr DType kBf16 = DType::kBFloat16;

Array ghost(const Dims& shape, DType dtype, std::int64_t offset = 0) {
  static const std::shared_ptr<Buffer> buffer =
      Buffer::wrap(Device{}, reinterpret_cast<void*>(std::uintptr_t{1} << 20), 1, nullptr);
  return {shape, contiguous_strides(shape), dtype, buffer, offset};
}

Array swapped(const Array& array) { return permute(array, {1, 0}, "test"); }

GemmCall plain(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = kBf16) {
  return {.a = ghost({m, k}, dtype), .b = ghost({k, n}, dtype), .c = ghost({m, n}, dtype)};
}

GemmCall linear(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = kBf16) {
  return {.a = ghost({m, k}, dtype), .b = swapped(ghost({n, k}, dtype)), .c = ghost({m, n}, dtype)};
}

std::vector<MatmulPlan> all(const GemmCall& call, const GemmMachine& machine = {}) {
  std::vector<MatmulPlan> plans;
  all_wgmma_plans(make_desc(call), machine, plans);
  return plans;
}

MatmulPlan best(const GemmCall& call) {
  std::vector<MatmulPlan> plans;
  propose_wgmma(make_desc(call), {}, plans);
  EXPECT_FALSE(plans.empty());
  return plans.empty() ? MatmulPlan{} : plans.front();
}

int area(const MatmulPlan& plan) { return plan.tile_m * plan.tile_n; }

TEST(WgmmaPlan, LargeProductsHaveLargeTiles) {
  for (const std::int64_t n : {2048, 4096, 8192, 16384}) {
    EXPECT_GE(area(best(plain(n, n, n))), 128 * 192) << n;
    EXPECT_GE(area(best(linear(n, n, n))), 128 * 192) << n;
  }
  for (const std::int64_t n : {4096, 8192, 16384})
    EXPECT_EQ(best(plain(n, n, n)).cluster, 2) << n;  // B is fetched together
}

TEST(WgmmaPlan, TilesAreChosenSoThatTheLastWaveIsFull) {
  const auto tiles = [](const MatmulPlan& plan, std::int64_t m, std::int64_t n) {
    if (plan.transpose) std::swap(m, n);
    return (m + plan.tile_m - 1) / plan.tile_m * ((n + plan.tile_n - 1) / plan.tile_n);
  };
  // One wave of 132, and not much less.
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1536, 1536, 1536},
                                {512, 10240, 8192},
                                {512, 6144, 4096},
                                {512, 3072, 2048}}) {
    const std::int64_t count = tiles(best(linear(m, n, k)), m, n);
    EXPECT_LE(count, 132) << m;
    EXPECT_GE(count, 120) << m;
  }
  // Smaller tiles keep all multiprocessors busy.
  EXPECT_LE(area(best(plain(1024, 1024, 1024))), 64 * 128);
}

TEST(WgmmaPlan, FewRowsAreTurnedAndPartsOfKAddedUp) {
  for (const std::int64_t m : {8, 16, 32, 64}) {
    const MatmulPlan plan = best(linear(m, 4096, 4096));
    EXPECT_TRUE(plan.transpose) << m;  // the weights are the operand of 64 rows
    EXPECT_GT(plan.cluster, 1) << m;
    EXPECT_NE(plan.kernel & kWgmmaSplit, 0) << m;
  }
  EXPECT_EQ(best(linear(8, 28672, 8192)).cluster, 1);  // enough tiles as they are
}

TEST(WgmmaPlan, LongSumsOfFewResultsAreCutAndAddedUpByALastPass) {
  const MatmulPlan plan = best(plain(512, 512, 32768));
  EXPECT_GT(plan.splits, 4);
  EXPECT_GE(plan.splits * plan.k_per_split, 32768);
  EXPECT_LT((plan.splits - 1) * plan.k_per_split, 32768);  // no part is empty
  EXPECT_EQ(plan.k_per_split % plan.tile_k, 0);
  const MatmulDesc output = wgmma_output(make_desc(plain(512, 512, 32768)), plan);
  EXPECT_EQ(output.dtype_c, DType::kFloat32);
  EXPECT_EQ(output.problem.c_m, 512);
  // Splits are 3 * 5 accumulators apart: TMA needs multiples of 16 bytes.
  const MatmulDesc odd = wgmma_output(make_desc(plain(3, 5, 4096)), plan);
  EXPECT_EQ(wgmma_store(odd), WgmmaStoreKind::kStrided);
}

TEST(WgmmaPlan, NeighboursReadDifferentRowsOfTheLongerOperand) {
  for (const MatmulPlan& plan : all(linear(512, 4096, 4096))) {
    if (plan.tile_m != 128 || plan.tile_n != 128 || plan.cluster != 1 || plan.splits != 1) continue;
    EXPECT_EQ(plan.group, plan.transpose ? 8 : 1);
  }
  for (const MatmulPlan& plan : all(linear(512, 28672, 4096))) {
    if (plan.splits == 1 && (plan.kernel & kWgmmaSplit) == 0) {
      EXPECT_EQ(plan.group, 8);  // several waves: the weights are read once
    }
  }
}

TEST(WgmmaPlan, BatchInvariantPlansSumEveryRowTheSameWay) {
  for (const std::int64_t m : {1, 3, 16, 500, 4096}) {
    GemmCall call = linear(m, 1024, 4096);
    call.batch_invariant = true;
    for (const MatmulPlan& plan : all(call)) {
      EXPECT_FALSE(plan.transpose);
      EXPECT_EQ(plan.kernel & kWgmmaSplit, 0);
      EXPECT_EQ(plan.splits, 1);
    }
  }
}

TEST(WgmmaPlan, BatchInvariantProductsHaveOneEngineForAllRows) {
  for (const std::int64_t m : {1, 2, 16, 130, 4096})
    for (const DType dtype : {kBf16, DType::kFloat32}) {
      GemmCall call = linear(m, 1024, 4096, dtype);
      call.batch_invariant = true;
      for (const MatmulPlan& plan : propose_matmul(make_desc(call), {}))
        EXPECT_EQ(plan.engine, dtype == kBf16 ? MatmulEngine::wgmma : MatmulEngine::simt) << m;
    }
}

TEST(WgmmaPlan, OperandsThatCopiesCannotReadArePacked) {
  EXPECT_EQ(best(plain(4096, 4096, 4096)).kernel, 0);
  const MatmulPlan odd_k = best(plain(4096, 4096, 4097));
  EXPECT_EQ(odd_k.kernel & (kWgmmaPackA | kWgmmaPackB),
            odd_k.transpose ? kWgmmaPackB : kWgmmaPackA);
  const MatmulPlan odd_n = best(plain(4096, 4097, 4096));
  EXPECT_EQ(odd_n.kernel & (kWgmmaPackA | kWgmmaPackB),
            odd_n.transpose ? kWgmmaPackA : kWgmmaPackB);
  GemmCall shifted = plain(4096, 4096, 4096);
  shifted.a = ghost({4096, 4096}, kBf16, 1);
  EXPECT_NE(best(shifted).kernel & (kWgmmaPackA | kWgmmaPackB), 0);
}

TEST(WgmmaPlan, TypesThatLieAlongKOnly) {
  GemmCall call = plain(2048, 2048, 2048, DType::kFloat32);
  EXPECT_TRUE(all(call).empty());  // float32 stays float32
  call.tf32 = true;
  for (const MatmulPlan& plan : all(call))
    EXPECT_EQ(plan.kernel & (kWgmmaPackA | kWgmmaPackB),
              plan.transpose ? kWgmmaPackA : kWgmmaPackB);
  call = linear(2048, 2048, 2048, DType::kInt8);
  call.c = ghost({2048, 2048}, DType::kInt32);
  EXPECT_EQ(best(call).kernel, 0);
  call.c = ghost({2048, 2048}, DType::kInt8);
  EXPECT_TRUE(all(call).empty());
}

TEST(WgmmaPlan, SumsOfEightBitsAreKeptTwiceUnlessToldOtherwise) {
  GemmCall call = linear(4096, 4096, 4096, DType::kFloat8E4M3FN);
  call.c = ghost({4096, 4096}, kBf16);
  for (const MatmulPlan& plan : all(call)) EXPECT_LE(plan.tile_m / 64 * plan.tile_n, 3 * 128);
  call.fast_accum = true;
  EXPECT_GE(area(best(call)), 128 * 256);
  EXPECT_NE(to_string(make_desc(call)).find("fast_accum"), std::string::npos);
}

TEST(WgmmaPlan, EveryPlanFitsAMultiprocessor) {
  const GemmMachine machine;
  for (const std::int64_t m : {1, 7, 64, 129, 1000, 8192})
    for (const std::int64_t n : {8, 100, 1024, 5000})
      for (const GemmCall& call : {plain(m, n, 4096), linear(m, n, 4096)}) {
        const MatmulDesc desc = make_desc(call);
        for (const MatmulPlan& plan : all(call)) {
          const MatmulDesc output = wgmma_output(plan.transpose ? transposed(desc) : desc, plan);
          EXPECT_LE(wgmma_shared_bytes(plan, wgmma_store(output), output.dtype_c),
                    machine.shared_bytes);
          EXPECT_GE(plan.stages, 3);
          EXPECT_LE(wgmma_threads(plan.tile_m), 512);
          EXPECT_GT(plan.predicted_us, 0.0f);
        }
      }
}

TEST(WgmmaPlan, SumsOfAClusterTakeTheRoomOfStages) {
  MatmulPlan plan;
  plan.tile_m = 128;
  plan.tile_n = 160;
  plan.tile_k = 64;
  plan.stages = 5;
  const std::size_t alone = wgmma_shared_bytes(plan, WgmmaStoreKind::kRows, kBf16);
  plan.kernel = kWgmmaSplit;
  plan.cluster = 2;
  EXPECT_LE(wgmma_shared_bytes(plan, WgmmaStoreKind::kRows, kBf16), alone);
  for (const MatmulPlan& each : all(linear(384, 3072, 8192)))
    if ((each.kernel & kWgmmaSplit) != 0) {
      EXPECT_GE(each.stages, 4) << to_string(each);
    }
}

TEST(WgmmaPlan, ShortKIsForWgmma) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1990, 8928, 144}, {581, 4832, 136}})
    for (const GemmCall& call : {plain(m, n, k), linear(m, n, k)})
      EXPECT_EQ(plan_matmul(make_desc(call), {}).engine, MatmulEngine::wgmma) << m;
}

// Times of the fastest plans on an H200 (docs/benchmarks/h200-sweep-*.json).
TEST(WgmmaPlan, ElementwiseStoresAndCopiesCostWhatWasMeasured) {
  EXPECT_NEAR(best(linear(1500, 6852, 175)).predicted_us, 37.3, 8.0);    // both copied, n % 8 != 0
  EXPECT_NEAR(best(linear(60, 5488, 14836)).predicted_us, 133.0, 25.0);  // by 8 bytes
  GemmCall odd = plain(1787, 128, 9040);                                 // a^T, by 2 bytes
  odd.a = swapped(ghost({9040, 1787}, kBf16));
  EXPECT_NEAR(best(odd).predicted_us, 67.0, 12.0);
}

TEST(WgmmaPlan, OnlyWhereTheInstructionsAre) {
  GemmMachine machine;
  for (const int sm : {80, 89, 100, 120}) {
    machine.sm = sm;
    EXPECT_TRUE(all(plain(1024, 1024, 1024), machine).empty());
  }
}

}  // namespace
}  // namespace gpk::ops::gemm
