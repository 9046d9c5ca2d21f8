#include "runtime/scheduler/qos.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "runtime/error.h"
#include "runtime/scheduler/qos_enforcement.h"
#include "runtime/scheduler/qos_evaluator.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

constexpr QosClass kClasses[] = {QosClass::kGuaranteed, QosClass::kBurstable,
                                 QosClass::kBestEffort};

TEST(RuntimeQos, TheTableOfClasses) {
  const int priorities[] = {100, 50, 0};
  const double overcommit[] = {1.0, 1.5, 2.0};
  const double bandwidth[] = {1.0, 0.8, 0.5};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(class_priority(kClasses[i]), priorities[i]);
    EXPECT_EQ(memory_overcommit_ratio(kClasses[i]), overcommit[i]);
    EXPECT_EQ(bandwidth_ratio(kClasses[i]), bandwidth[i]);
    for (int j = 0; j < 3; ++j) EXPECT_EQ(can_preempt(kClasses[i], kClasses[j]), i < j);
  }
  EXPECT_EQ(static_cast<int>(QosClass::kBestEffort), 2);
  EXPECT_STREQ(to_string(QosClass::kBurstable), "Burstable");
}

TEST(RuntimeQos, Requirements) {
  const ResourceRequirements plain(100);
  EXPECT_EQ(plain.memory_limit_bytes, 100u);
  EXPECT_EQ(plain.bandwidth_request, 0.0);
  EXPECT_EQ(plain.bandwidth_limit, 1.0);
  EXPECT_EQ(ResourceRequirements::burstable(100, 2.5).memory_limit_bytes, 250u);
  EXPECT_EQ(ResourceRequirements::best_effort().memory_request_bytes, 0u);
  EXPECT_EQ(kind_of([] { ResourceRequirements(100, 99); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { ResourceRequirements(1, 1, -1.0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { ResourceRequirements(1, 1, 0.5, 0.4); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { ResourceRequirements::burstable(1, 0.5); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { ResourceRequirements::burstable(1, std::nan("")); }), Error::Kind::kValue);
  EXPECT_EQ(ResourceRequirements::burstable(std::size_t{1} << 63, 4.0).memory_limit_bytes,
            ~std::size_t{0});
}

TEST(RuntimeQos, PoliciesReserveByClass) {
  EXPECT_EQ(QosPolicy::guaranteed(100).memory_to_reserve_bytes(), 100u);
  EXPECT_EQ(QosPolicy::guaranteed(100).bandwidth_to_reserve(), 1.0);
  EXPECT_EQ(QosPolicy::burstable(100, 2).memory_to_reserve_bytes(), 100u);
  EXPECT_EQ(QosPolicy::burstable(100, 2).bandwidth_to_reserve(), 0.0);
  EXPECT_EQ(QosPolicy::best_effort().memory_to_reserve_bytes(), 0u);
}

TEST(RuntimeQos, TaskMeta) {
  QosTaskMeta task = QosTaskMeta::burstable("id", "name", 100, 1.5);
  task.priority = 7;
  EXPECT_EQ(task.effective_priority(), 57);
  EXPECT_EQ(task.burst_ratio, 1.5);
  EXPECT_EQ(task.policy.requirements.memory_limit_bytes, 150u);
  EXPECT_EQ(QosTaskMeta::guaranteed("a", "a", 1).effective_priority(), 100);
  EXPECT_EQ(QosTaskMeta::best_effort("a", "a").qos_class(), QosClass::kBestEffort);
}

TEST(RuntimeQos, GuaranteedReservesItsLimit) {
  QosPolicyEvaluator evaluator(1000);
  const QosEvaluation first = evaluator.admit(QosTaskMeta::guaranteed("a", "a", 600));
  EXPECT_TRUE(first.is_admitted());
  EXPECT_EQ(first.reserved_memory_bytes, 600u);
  EXPECT_EQ(evaluator.stats().guaranteed_memory_bytes, 600u);
  EXPECT_EQ(evaluator.stats().guaranteed_bandwidth, 1.0);
  EXPECT_EQ(evaluator.stats().available_bandwidth, 0.0);
  const QosEvaluation second = evaluator.admit(QosTaskMeta::guaranteed("b", "b", 600));
  EXPECT_TRUE(second.is_rejected());
  EXPECT_EQ(second.text(), "Reject (Guaranteed): limit of 600 B memory, 400 B left");
  // No bandwidth is left, and it asked for none: its promise can be kept with nothing more.
  const QosEvaluation third = evaluator.admit(QosTaskMeta::guaranteed("c", "c", 100));
  EXPECT_TRUE(third.is_admitted());
  EXPECT_EQ(third.reserved_bandwidth, 0.0);
  QosTaskMeta asking = QosTaskMeta::guaranteed("d", "d", 1);
  asking.policy.requirements.bandwidth_request = 0.1;
  EXPECT_TRUE(evaluator.evaluate(asking).is_rejected());
  evaluator.release(first);
  evaluator.release(second);
  evaluator.release(third);
  EXPECT_EQ(evaluator.stats().available_memory_bytes, 1000u);
  EXPECT_EQ(evaluator.stats().guaranteed_bandwidth, 0.0);
}

TEST(RuntimeQos, BurstableIsThrottledWhereItsLimitDoesNotFit) {
  QosPolicyEvaluator evaluator(1000);
  const QosEvaluation fits = evaluator.admit(QosTaskMeta::burstable("a", "a", 400, 2.0));
  EXPECT_TRUE(fits.is_admitted());
  EXPECT_EQ(fits.reserved_memory_bytes, 400u);
  EXPECT_EQ(evaluator.stats().burstable_memory_bytes, 400u);
  const QosEvaluation tight = evaluator.admit(QosTaskMeta::burstable("b", "b", 400, 2.0));
  EXPECT_TRUE(tight.is_throttled());
  EXPECT_EQ(tight.reserved_memory_bytes, 0u);
  EXPECT_EQ(evaluator.stats().burstable_memory_bytes, 400u);
  EXPECT_TRUE(evaluator.admit(QosTaskMeta::burstable("c", "c", 700, 1.0)).is_rejected());
  evaluator.admit(QosTaskMeta::guaranteed("g", "g", 10));  // takes the bandwidth
  EXPECT_TRUE(evaluator.evaluate(QosTaskMeta::burstable("d", "d", 1, 1.0)).is_throttled());
}

TEST(RuntimeQos, BestEffortTakesWhatIsLeftOrWaits) {
  QosPolicyEvaluator evaluator(1000);
  const QosTaskMeta task = QosTaskMeta::best_effort("a", "a");
  EXPECT_TRUE(evaluator.admit(task).is_admitted());
  EXPECT_EQ(evaluator.stats().best_effort_queue, 0u);
  const QosEvaluation all = evaluator.admit(QosTaskMeta::guaranteed("g", "g", 1000));
  const QosEvaluation queued = evaluator.admit(task);
  EXPECT_TRUE(queued.is_queued());
  EXPECT_EQ(evaluator.stats().best_effort_queue, 1u);
  evaluator.release(all);
  evaluator.release(queued);
  EXPECT_EQ(evaluator.stats().best_effort_queue, 0u);
  EXPECT_TRUE(evaluator.evaluate(task).is_admitted());
}

TEST(RuntimeQos, AnEvaluationThatIsStaleIsRefused) {
  QosPolicyEvaluator evaluator(1000);
  const QosEvaluation a = evaluator.evaluate(QosTaskMeta::guaranteed("a", "a", 600));
  const QosEvaluation b = evaluator.evaluate(QosTaskMeta::guaranteed("b", "b", 600));
  EXPECT_TRUE(b.is_admitted());
  evaluator.reserve(a);
  EXPECT_EQ(kind_of([&] { evaluator.reserve(b); }), Error::Kind::kState);
  EXPECT_EQ(evaluator.stats().guaranteed_memory_bytes, 600u);
}

TEST(RuntimeQos, MoreThanIsHeldCannotBeReleased) {
  QosPolicyEvaluator evaluator(1000);
  evaluator.admit(QosTaskMeta::guaranteed("a", "a", 600));
  EXPECT_EQ(kind_of([&] { evaluator.release(QosClass::kGuaranteed, 601, 0.0); }),
            Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { evaluator.release(QosClass::kGuaranteed, 0, 1.1); }),
            Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { evaluator.release(QosClass::kBurstable, 1, 0.0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { QosPolicyEvaluator(1, -1.0); }), Error::Kind::kValue);
  evaluator.release(QosClass::kGuaranteed, 600, 1.0);
  EXPECT_EQ(evaluator.stats().available_memory_bytes, 1000u);
  evaluator.admit(QosTaskMeta::guaranteed("a", "a", 600));
  evaluator.reset();
  EXPECT_EQ(evaluator.stats().available_memory_bytes, 1000u);
  EXPECT_EQ(evaluator.stats().available_bandwidth, 1.0);
}

TEST(RuntimeQos, RandomReservationsNeverPassTheTotals) {
  const std::size_t num_wanted = std::getenv("GPK_TEST_LONG") != nullptr ? 10'000'000 : 30'000;
  std::mt19937_64 random(11);
  std::size_t num_decisions[4] = {};
  QosPolicyEvaluator evaluator(10'000, 2.0);
  std::vector<QosEvaluation> held;
  std::size_t held_bytes = 0;
  for (std::size_t i = 0; i < num_wanted; ++i) {
    if (held.size() > 20 || (!held.empty() && random() % 3 == 0)) {
      const std::size_t k = random() % held.size();
      evaluator.release(held[k]);
      held_bytes -= held[k].reserved_memory_bytes;
      held[k] = held.back();
      held.pop_back();
    }
    QosTaskMeta task = QosTaskMeta::best_effort("t", "t");
    const std::size_t bytes = random() % 3000;
    switch (random() % 3) {
      case 0: {
        task = QosTaskMeta::guaranteed("t", "t", bytes);
        auto& needs = task.policy.requirements;
        needs.bandwidth_limit = static_cast<double>(random() % 60) / 100;
        needs.bandwidth_request = needs.bandwidth_limit / 2;
        break;
      }
      case 1:
        task = QosTaskMeta::burstable("t", "t", bytes, 1.0 + static_cast<double>(random() % 3));
    }
    const QosEvaluation evaluation = evaluator.admit(task);
    ++num_decisions[static_cast<int>(evaluation.decision)];
    const QosStats stats = evaluator.stats();
    held_bytes += evaluation.reserved_memory_bytes;
    if (!evaluation.is_rejected() && !evaluation.is_throttled()) held.push_back(evaluation);
    ASSERT_EQ(stats.guaranteed_memory_bytes + stats.burstable_memory_bytes, held_bytes);
    ASSERT_LE(held_bytes, 10'000u);
    ASSERT_LE(stats.guaranteed_bandwidth, 2.0);
    if (evaluation.is_rejected() && task.qos_class() == QosClass::kBurstable) {
      ASSERT_GT(bytes, stats.available_memory_bytes);
    }
  }
  for (const QosEvaluation& evaluation : held) evaluator.release(evaluation);
  EXPECT_EQ(evaluator.stats().available_memory_bytes, 10'000u);
  EXPECT_EQ(evaluator.stats().guaranteed_bandwidth, 0.0);
  EXPECT_EQ(evaluator.stats().best_effort_queue, 0u);
  EXPECT_GT(num_decisions[0], 0u);
  EXPECT_GT(num_decisions[1], 0u);
  EXPECT_GT(num_decisions[3], 0u);
}

TEST(RuntimeQos, EnforcementFollowsTheClasses) {
  for (int i = 0; i + 1 < 3; ++i) {
    const QosEnforcement higher = enforcement(kClasses[i]);
    const QosEnforcement lower = enforcement(kClasses[i + 1]);
    EXPECT_GT(higher.stream_priority, lower.stream_priority);
    EXPECT_GT(higher.eviction_rank, lower.eviction_rank);
    EXPECT_TRUE(higher.max_in_flight == 0 || higher.max_in_flight > lower.max_in_flight);
    EXPECT_FALSE(higher.yields);
  }
  EXPECT_EQ(enforcement(QosClass::kGuaranteed).reservation, QosReservation::kLimit);
  EXPECT_EQ(enforcement(QosClass::kBurstable).reservation, QosReservation::kRequest);
  EXPECT_EQ(enforcement(QosClass::kBestEffort).reservation, QosReservation::kNothing);
  EXPECT_TRUE(enforcement(QosClass::kBestEffort).yields);
  EXPECT_GT(enforcement(QosClass::kBestEffort).max_in_flight, 0u);
  // The driver's range of an H200, of one that has no priorities, and of the smallest one.
  EXPECT_EQ(stream_priority(QosClass::kGuaranteed, 0, -5), -5);
  EXPECT_EQ(stream_priority(QosClass::kBurstable, 0, -5), -2);
  EXPECT_EQ(stream_priority(QosClass::kBestEffort, 0, -5), 0);
  EXPECT_EQ(stream_priority(QosClass::kGuaranteed, 0, 0), 0);
  EXPECT_EQ(stream_priority(QosClass::kBurstable, 0, -1), 0);
}

}  // namespace
}  // namespace gpk::runtime
