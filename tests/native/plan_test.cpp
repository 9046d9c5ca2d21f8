// Shared by kernel families: caches, candidates, recorders, cost helpers.
#include <gtest/gtest.h>

#include "fake_driver/core_fixture.h"
#include "plan/cost.h"
#include "plan/explain.h"
#include "plan/measure.h"
#include "plan/operand_format.h"
#include "plan/plan_cache.h"
#include "plan/tensor_maps.h"

namespace gpk::plan {
namespace {

struct ToyPlan {
  int tile = 0;
  float predicted_us = 0.0f;
  friend bool operator==(const ToyPlan& x, const ToyPlan& y) { return x.tile == y.tile; }
};
std::string to_string(const ToyPlan& plan) { return cat("toy(tile=", plan.tile, ")"); }

using ToyKey = PlanKey<4>;
using ToyCache = PlanCache<ToyKey, ToyPlan>;
using ToyDecision = Decision<ToyPlan, Machine>;

ToyKey key(std::uint64_t word) {
  ToyKey made;
  made.add(word);
  return made;
}

std::shared_ptr<const ToyPlan> make(std::uint64_t word, int tile) {
  return ToyCache::make(key(word), [&] { return std::make_shared<ToyPlan>(ToyPlan{tile}); });
}

TEST(PlanCache, FindsWhatWasMade) {
  EXPECT_EQ(ToyCache::find(key(1)), nullptr);
  const auto made = make(1, 128);
  EXPECT_EQ(ToyCache::find(key(1)), made);
  EXPECT_EQ(ToyCache::find(key(2)), nullptr);
  ToyKey longer = key(1);
  longer.add(0);
  EXPECT_EQ(ToyCache::find(longer), nullptr);
}

TEST(PlanCache, ForgetsEverywhere) {
  make(1, 128);
  ToyCache::forget();
  EXPECT_EQ(ToyCache::find(key(1)), nullptr);
  make(1, 64);
  EXPECT_EQ(ToyCache::find(key(1))->tile, 64);
  // A decision made before an invalidation is not found.
  ToyCache::make(key(2), [] {
    ToyCache::forget();
    return std::make_shared<ToyPlan>(ToyPlan{32});
  });
  EXPECT_EQ(ToyCache::find(key(2)), nullptr);
}

TEST(PlanCache, BypassFindsAndKeepsNothing) {
  make(1, 128);
  {
    const ToyCache::Bypass outer;
    {
      const ToyCache::Bypass inner;
      EXPECT_EQ(ToyCache::find(key(1)), nullptr);
    }
    EXPECT_EQ(ToyCache::find(key(1)), nullptr);
    EXPECT_EQ(make(1, 64)->tile, 64);
    EXPECT_EQ(ToyCache::find(key(1)), nullptr);
  }
  make(3, 16);
  EXPECT_EQ(ToyCache::find(key(1)), nullptr);  // entries from before are not trusted either
  EXPECT_EQ(ToyCache::find(key(3))->tile, 16);
}

TEST(PlanCandidates, CheapestThenTie) {
  std::vector<ToyPlan> plans{{3, 2.0f}, {2, 1.0f}, {1, 1.0f}};
  sort_by_time(plans, &ToyPlan::tile);
  EXPECT_EQ(plans[0].tile, 1);
  EXPECT_EQ(plans[1].tile, 2);
  EXPECT_EQ(plans[2].tile, 3);
}

TEST(PlanCandidates, MeasuredOnlyWhileProposed) {
  ToyDecision decision;
  decision.plans = {{1, 1.0f}, {2, 2.0f}};
  decision.plan = decision.plans[0];
  take_measured(decision, ToyPlan{7}, 3.0);
  EXPECT_EQ(decision.reason, Reason::kModel);
  take_measured(decision, ToyPlan{2}, 3.0);
  EXPECT_EQ(decision.reason, Reason::kMeasured);
  EXPECT_EQ(decision.plan.predicted_us, 2.0f);
  EXPECT_EQ(decision.measured_us, 3.0);
}

TEST(PlanCandidates, ForcedByPrefix) {
  ToyDecision decision;
  decision.plans = {{1, 1.0f}, {2, 2.0f}};
  EXPECT_EQ(ForcedPlan<ToyCache>::current(), nullptr);
  const ForcedPlan<ToyCache> forced("toy(tile=2");
  ForcedPlan<ToyCache>::current()->choose(decision, "toys");
  EXPECT_EQ(decision.plan.tile, 2);
  EXPECT_EQ(decision.reason, Reason::kForced);
  const ForcedPlan<ToyCache> magic("magic");
  try {
    ForcedPlan<ToyCache>::current()->choose(decision, "toys");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "toys: no plan starts with 'magic'; candidates are\n  toy(tile=1)\n  toy(tile=2)");
  }
}

TEST(PlanCandidates, OnlyPromisingOnesAreMeasured) {
  std::vector<ToyPlan> plans;
  for (int i = 0; i < 30; ++i) plans.push_back({i, 1.0f + 0.01f * static_cast<float>(i)});
  plans.push_back({100, 9.0f});
  keep_promising(plans, [](const ToyPlan& plan) { return plan.tile == 100; });
  EXPECT_EQ(plans.size(), 13u);
  EXPECT_EQ(plans.back().tile, 100);
  plans = {{1, 1.0f}, {2, 2.4f}, {3, 2.6f}};
  keep_promising(plans, [](const ToyPlan&) { return false; });
  EXPECT_EQ(plans.size(), 2u);
}

TEST(PlanExplain, DecisionAsText) {
  ToyDecision decision;
  decision.plans = {{1, 1.256f}, {2, 2.0f}};
  decision.plan = decision.plans[1];
  EXPECT_EQ(explain_decision(decision, "because"),
            cat("machine   ", to_string(Machine{}),
                "\ncandidates (predicted)\n    toy(tile=1)  1.26 us\n  * toy(tile=2)  2 us\n"
                "choice    toy(tile=2)\nwhy       because\n"));
}

TEST(PlanExplain, RecorderTakesCallsAndBypassesTheCache) {
  using Recorder = CallRecorder<int, ToyCache>;
  make(5, 1);
  EXPECT_FALSE(Recorder::record(1));
  std::vector<int> calls;
  {
    const Recorder recorder(calls);
    EXPECT_EQ(ToyCache::find(key(5)), nullptr);
    EXPECT_TRUE(Recorder::record(7));
  }
  EXPECT_FALSE(Recorder::record(8));
  EXPECT_EQ(calls, std::vector<int>{7});
}

TEST(PlanCost, PassesOverWhatFitsTheL2AreCheaper) {
  const Machine h200;
  const double small = dependent_pass_us(h200, 1e6), large = dependent_pass_us(h200, 1e9);
  EXPECT_NEAR(small, kLaunchUs + 2.0 + 1e6 / l2_bytes_per_us(h200), 1e-9);
  EXPECT_NEAR(large, kLaunchUs + 2.0 + 1e9 / dram_bytes_per_us(h200), 1e-9);
  EXPECT_EQ(tensor_flops_per_us({.sm = 86}, DType::kFloat8E4M3FN), 0.0);
  EXPECT_GT(overlapped_us(3.0, 4.0), 4.0);
  EXPECT_LT(overlapped_us(3.0, 4.0), 5.0);
}

TEST(OperandFormat, Text) {
  EXPECT_EQ(to_string(OperandFormat{DType::kBFloat16}), "bfloat16");
  const OperandFormat int4{
      DType::kInt4, Packing::kInt4Pairs, ScaleLayout::kBlocksOfK, DType::kFloat16, 128, true};
  EXPECT_EQ(to_string(int4), "int4 in pairs with float16 scale per 128 of k and zero point");
  const OperandFormat row{.dtype = DType::kFloat8E4M3FN, .scales = ScaleLayout::kRow};
  EXPECT_EQ(to_string(transposed(row)), "float8_e4m3fn with float32 scale per column");
  EXPECT_EQ(transposed(int4), int4);
}

class TensorMaps : public CoreTest {};

TEST_F(TensorMaps, EqualSpecsAreEncodedOnce) {
  TensorMapSpec spec;
  spec.address = 0x7000000;
  spec.sizes[0] = 4096;
  spec.sizes[1] = 128;
  spec.pitches[0] = 4096;
  spec.pitches[1] = 4096 * 128;
  spec.box[0] = 64;
  const std::size_t before = fake::num_calls("cuTensorMapEncodeTiled");
  const cu::TensorMap first = tensor_map(spec);
  EXPECT_EQ(tensor_map(spec).opaque[0], first.opaque[0]);
  EXPECT_EQ(fake::num_calls("cuTensorMapEncodeTiled"), before + 1);
  spec.address += 128;
  tensor_map(spec);
  EXPECT_EQ(fake::num_calls("cuTensorMapEncodeTiled"), before + 2);
}

}  // namespace
}  // namespace gpk::plan
