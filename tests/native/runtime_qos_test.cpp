#include "runtime/scheduler/qos.h"

#include <gtest/gtest.h>

#include "runtime/scheduler/qos_enforcement.h"

namespace gpk::runtime {
namespace {

constexpr QosClass kClasses[] = {QosClass::kGuaranteed, QosClass::kBurstable,
                                 QosClass::kBestEffort};

TEST(RuntimeQos, TheTableOfClasses) {
  const int priorities[] = {100, 50, 0};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(class_priority(kClasses[i]), priorities[i]);
  EXPECT_EQ(static_cast<int>(QosClass::kBestEffort), 2);
  EXPECT_STREQ(to_string(QosClass::kBurstable), "Burstable");
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
