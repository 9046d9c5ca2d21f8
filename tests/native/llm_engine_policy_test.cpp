#include "llm/engine_policy.h"

#include <gtest/gtest.h>

namespace gpk::llm {
namespace {

using Ids = std::vector<std::uint64_t>;
using Chunks = std::vector<StepPlan::Chunk>;
using State = RequestState;

constexpr PolicyLimits kLimits{100, 100, 8, 64, 8};

PolicyRequest running(std::uint64_t id, std::int64_t priority = 0, std::int64_t wanted = 0,
                      std::int64_t held = 4) {
  return {id, priority, State::kRunning, 0, wanted, held, held};
}
PolicyRequest prefilling(std::uint64_t id, std::int64_t left, std::int64_t priority = 0) {
  return {id, priority, State::kPrefilling, left, 0, 4, 1};
}
PolicyRequest waiting(std::uint64_t id, std::int64_t prompt, std::int64_t priority = 0) {
  return {id, priority, State::kWaiting, prompt};
}
PolicyRequest swapped(std::uint64_t id, std::int64_t wanted, std::int64_t priority = 0) {
  return {id, priority, State::kSwapped, 0, wanted};
}

StepPlan plan(const std::vector<PolicyRequest>& requests, const PolicyLimits& limits = kLimits,
              std::int64_t admission = 4) {
  return plan_step(requests, limits, [=](std::uint64_t) { return admission; });
}

TEST(EnginePolicy, PromptsAndTextsShareAStep) {
  const StepPlan p = plan({running(1), prefilling(2, 30), waiting(3, 20)});
  EXPECT_EQ(p.rows, Ids{1});
  EXPECT_EQ(p.admitted, Ids{3});
  EXPECT_EQ(p.prefill, (Chunks{{2, 30}, {3, 20}}));
  EXPECT_TRUE(p.preempted.empty() && p.restored.empty() && p.dropped.empty());
}

TEST(EnginePolicy, LongPromptsAreCut) {
  EXPECT_EQ(plan({prefilling(1, 100)}).prefill, (Chunks{{1, 64}}));
  EXPECT_EQ(plan({prefilling(1, 50), prefilling(2, 50)}).prefill, (Chunks{{1, 50}, {2, 14}}));
}

TEST(EnginePolicy, NoChunkOfOneTokenIsLeft) {
  EXPECT_EQ(plan({prefilling(1, 65)}).prefill, (Chunks{{1, 63}}));
  EXPECT_EQ(plan({prefilling(1, 63), prefilling(2, 9)}).prefill, (Chunks{{1, 63}}));
  PolicyLimits narrow = kLimits;
  narrow.max_prefill_tokens = 2;
  EXPECT_EQ(plan({prefilling(1, 3), prefilling(2, 2)}, narrow).prefill, (Chunks{{2, 2}}));
}

TEST(EnginePolicy, PromptsOfOneTokenHaveAPassOfTheirOwn) {
  EXPECT_EQ(plan({prefilling(1, 1), prefilling(2, 9), prefilling(3, 1)}).prefill,
            (Chunks{{1, 1}, {3, 1}}));
  EXPECT_EQ(plan({prefilling(2, 9), prefilling(3, 1)}).prefill, (Chunks{{2, 9}}));
}

TEST(EnginePolicy, AHigherPriorityHasTheStepToItself) {
  const StepPlan p = plan({running(1, 100), waiting(2, 20, 100), running(3), prefilling(4, 20)});
  EXPECT_EQ(p.prefill, (Chunks{{2, 20}}));
  EXPECT_EQ(p.rows, Ids{1});
}

TEST(EnginePolicy, AnOldRequestIsNotHeldUp) {
  const StepPlan p = plan({running(1, 0), waiting(2, 20, 100)});
  EXPECT_EQ(p.rows, Ids{1});
}

TEST(EnginePolicy, OnlyTheFirstGetRows) {
  PolicyLimits limits = kLimits;
  limits.max_rows = 2;
  const StepPlan p = plan({running(1), running(2), running(3), waiting(4, 9)}, limits);
  EXPECT_EQ(p.rows, (Ids{1, 2}));
  EXPECT_TRUE(p.admitted.empty());
}

TEST(EnginePolicy, AHigherPriorityEntersAFullBatch) {
  PolicyLimits limits = kLimits;
  limits.max_rows = 2;
  const StepPlan p = plan({waiting(1, 9, 50), running(2), running(3)}, limits);
  EXPECT_EQ(p.admitted, Ids{1});
  EXPECT_TRUE(p.preempted.empty());  // it waits with its pages
}

TEST(EnginePolicy, AdmissionNeedsPages) {
  PolicyLimits limits = kLimits;
  limits.pages = 4;
  EXPECT_EQ(plan({waiting(1, 9)}, limits).admitted, Ids{1});
  EXPECT_EQ(plan({waiting(1, 9), waiting(2, 9)}, limits).admitted, Ids{1});
  // One page is left for the text that grows.
  EXPECT_TRUE(plan({running(1), waiting(2, 9)}, limits).admitted.empty());
}

TEST(EnginePolicy, NobodyPassesTheFirstThatWaits) {
  PolicyLimits limits = kLimits;
  limits.pages = 4;
  const StepPlan p = plan_step(std::vector<PolicyRequest>{waiting(1, 900), waiting(2, 9)}, limits,
                               [](std::uint64_t id) { return id == 1 ? 20 : 1; });
  EXPECT_TRUE(p.admitted.empty());
}

TEST(EnginePolicy, AGrowingTextTakesPagesFromTheLast) {
  PolicyLimits limits = kLimits;
  limits.pages = 0;
  const StepPlan p = plan({running(1, 0, 1), running(2, 0, 1), running(3, 0, 1)}, limits);
  EXPECT_EQ(p.preempted, Ids{3});
  EXPECT_EQ(p.rows, (Ids{1, 2}));
}

TEST(EnginePolicy, TheLastYieldsItself) {
  PolicyLimits limits = kLimits;
  limits.pages = 0;
  const StepPlan p = plan({running(1, 0, 0), running(2, 0, 1)}, limits);
  EXPECT_EQ(p.preempted, Ids{2});
  EXPECT_EQ(p.rows, Ids{1});
}

TEST(EnginePolicy, AHigherPriorityPreempts) {
  PolicyLimits limits = kLimits;
  limits.pages = 1;
  const StepPlan p = plan({waiting(1, 9, 100), running(2), running(3)}, limits);
  EXPECT_EQ(p.preempted, Ids{3});
  EXPECT_EQ(p.admitted, Ids{1});
  EXPECT_EQ(p.prefill, (Chunks{{1, 9}}));
}

TEST(EnginePolicy, EqualsDoNotPreemptToEnter) {
  PolicyLimits limits = kLimits;
  limits.pages = 0;
  const StepPlan p = plan({waiting(1, 9), running(2), running(3)}, limits);
  EXPECT_TRUE(p.preempted.empty());
  EXPECT_EQ(p.rows, (Ids{2, 3}));
}

TEST(EnginePolicy, NobodyIsPreemptedInVain) {
  PolicyLimits limits = kLimits;
  limits.pages = 0;
  const StepPlan p = plan({waiting(1, 9, 100), running(2, 100), running(3)}, limits, 20);
  EXPECT_TRUE(p.preempted.empty());
}

TEST(EnginePolicy, SwappedRequestsComeBackFirst) {
  PolicyLimits limits = kLimits;
  limits.pages = 6;
  const StepPlan p = plan({swapped(1, 5), waiting(2, 9)}, limits);
  EXPECT_EQ(p.restored, Ids{1});
  EXPECT_EQ(p.rows, Ids{1});
  EXPECT_TRUE(p.admitted.empty());
}

TEST(EnginePolicy, WithoutHostMemoryTextsWait) {
  PolicyLimits limits = kLimits;
  limits.pages = 0;
  limits.host_pages = 0;
  StepPlan p = plan({running(1, 0, 0), running(2, 0, 1)}, limits);
  EXPECT_EQ(p.rows, Ids{1});
  EXPECT_TRUE(p.preempted.empty() && p.dropped.empty());
  p = plan({running(1, 0, 1), running(2, 0, 1)}, limits);
  EXPECT_EQ(p.dropped, Ids{2});
}

TEST(EnginePolicy, RanksAge) {
  const std::int64_t second = 1'000'000'000;
  EXPECT_LT(request_rank(50 * second, 100, second), request_rank(0, 0, second));
  EXPECT_GT(request_rank(101 * second, 100, second), request_rank(0, 0, second));
}

TEST(RequestState, StepsAreThoseOfTheHeader) {
  EXPECT_TRUE(can_enter(State::kWaiting, State::kPrefilling));
  EXPECT_FALSE(can_enter(State::kWaiting, State::kRunning));
  EXPECT_TRUE(can_enter(State::kPrefilling, State::kSwapped));
  EXPECT_TRUE(can_enter(State::kSwapped, State::kPrefilling));
  EXPECT_FALSE(can_enter(State::kRunning, State::kWaiting));
  for (const State end : {State::kFinished, State::kCancelled, State::kFailed}) {
    EXPECT_TRUE(has_ended(end));
    EXPECT_FALSE(can_enter(end, State::kFailed));
    EXPECT_TRUE(can_enter(State::kRunning, end));
  }
  EXPECT_STREQ(to_string(State::kSwapped), "swapped");
}

}  // namespace
}  // namespace gpk::llm
