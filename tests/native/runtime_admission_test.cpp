#include "runtime/scheduler/admission_decision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "expect.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

AdmissionConfig strict(std::size_t memory, double bandwidth = 1.0, std::size_t pending = 1000) {
  return AdmissionConfig(memory, bandwidth, pending, false);
}

// The rule with `reserved` bytes and a share of `reserved_bandwidth` in use by `pending` tasks.
AdmissionDecision decide(const AdmissionConfig& config, std::size_t bytes, double bandwidth,
                         std::size_t reserved = 0, double reserved_bandwidth = 0.0,
                         std::size_t pending = 0) {
  AdmissionUsage usage;
  usage.reserved_memory_bytes = reserved;
  usage.available_memory_bytes = config.max_memory_bytes - reserved;
  usage.available_bandwidth_ppb = config.max_bandwidth_ppb - share_ppb(reserved_bandwidth, "");
  usage.num_pending = pending;
  const SharePpb ppb = share_ppb(bandwidth, "decide");
  return decide_admission(config, usage, admission_request(bytes, ppb, config.max_memory_bytes));
}

TEST(RuntimeAdmission, WhatFitsIsAdmitted) {
  const AdmissionDecision decision = decide(AdmissionConfig(1000), 400, 0.25, 600, 0.75);
  EXPECT_TRUE(decision.is_admitted());
  EXPECT_FALSE(decision.reject_reason());
  EXPECT_EQ(decision.reserved_memory_bytes, 400u);
  EXPECT_DOUBLE_EQ(decision.reserved_bandwidth(), 0.25);
  EXPECT_EQ(decision.text(), "Admit: reserves 400 B memory and 0.25 bandwidth");
}

TEST(RuntimeAdmission, ABandwidthThatIsNotGivenIsEstimatedFromTheMemory) {
  const AdmissionDecision decision = decide(strict(kGiB, 0.5), 600 * kMiB, 0.0);
  EXPECT_EQ(decision.reject_reason(), RejectReason::kInsufficientBandwidth);
  EXPECT_EQ(decision.details->message(),
            "Insufficient bandwidth: requested 0.5859375, available 0.5");
  EXPECT_TRUE(decide(strict(kGiB, 0.5), 600 * kMiB, 0.2).is_admitted());
  // The estimates of tasks that fit together never add up to more than 1.
  for (std::size_t n = 1; n <= 60; ++n) {
    double held = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      const AdmissionDecision one = decide(strict(60 * n), 60, 0.0, 60 * i, held, i);
      ASSERT_TRUE(one.is_admitted()) << i << "/" << n;
      held += one.reserved_bandwidth();
    }
  }
}

TEST(RuntimeAdmission, DecisionsInTheDocumentedOrder) {
  const AdmissionConfig config = strict(100, 0.5, 2);
  EXPECT_EQ(decide(config, 61, 0.9, 40).reject_reason(), RejectReason::kInsufficientMemory);
  EXPECT_EQ(decide(config, 60, 0.9, 40).reject_reason(), RejectReason::kInsufficientBandwidth);
  const AdmissionDecision full = decide(config, 1000, 0.0, 40, 0.0, 2);
  EXPECT_EQ(full.reject_reason(), RejectReason::kQueueFull);
  EXPECT_EQ(full.text(), "Reject: Queue full: 2 tasks pending, at most 2");
}

TEST(RuntimeAdmission, ARejectionKnowsItsNumbers) {
  const AdmissionDecision decision = decide(strict(4 * kMiB), 2 * kMiB, 0.1, 3 * kMiB);
  ASSERT_TRUE(decision.details);
  EXPECT_EQ(decision.details->requested_memory_bytes, 2 * kMiB);
  EXPECT_EQ(decision.details->available_memory_bytes, kMiB);
  EXPECT_EQ(decision.details->message(),
            "Insufficient memory: requested 2.00 MiB (2097152 bytes), available 1.00 MiB (1048576 "
            "bytes)");
}

TEST(RuntimeAdmission, WithBestEffortWhatDoesNotFitIsQueued) {
  const AdmissionConfig config(200'000'000);
  const AdmissionDecision decision = decide(config, 100, 0.1, 200'000'000, 0.1, 3);
  EXPECT_TRUE(decision.is_queued());
  EXPECT_FALSE(decision.reject_reason());
  EXPECT_EQ(decision.details->reason_type, RejectReason::kInsufficientMemory);
  EXPECT_EQ(decision.queue_position, 3u);
  EXPECT_DOUBLE_EQ(decision.estimated_wait_ms(), 2000.0);  // 200 MB at 100 MB/s
  EXPECT_FALSE(decision.wait_is_measured);
  AdmissionUsage usage;
  usage.measured_wait_ns = 10'000'000;
  const AdmissionDecision measured = decide_admission(config, usage, {1, 0});
  EXPECT_TRUE(measured.wait_is_measured);
  EXPECT_NE(measured.text().find("Queue: position 0, about 10.00 ms by measured completions; "
                                 "Insufficient memory"),
            std::string::npos)
      << measured.text();
}

TEST(RuntimeAdmission, WhatNeverFitsIsQueuedOrRejected) {
  AdmissionConfig config(100);
  EXPECT_TRUE(decide(config, 101, 0.0).is_queued());
  config.reject_impossible = true;
  EXPECT_EQ(decide(config, 101, 0.0).reject_reason(), RejectReason::kInsufficientMemory);
  EXPECT_EQ(decide(config, 1, 1.1).reject_reason(), RejectReason::kInsufficientBandwidth);
}

TEST(RuntimeAdmission, BadInputIsAValueError) {
  EXPECT_EQ(kind_of([] { decide(AdmissionConfig(100), 1, -0.5); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { decide(AdmissionConfig(100), 1, std::nan("")); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { AdmissionConfig(1, -1.0); }), Error::Kind::kValue);
}

TEST(RuntimeAdmission, FactoriesOfDecisions) {
  EXPECT_TRUE(AdmissionDecision::admitted().is_admitted());
  EXPECT_TRUE(AdmissionDecision::queued().is_queued());
  RejectReasonDetails details;
  details.custom = "closed for repairs";
  const AdmissionDecision decision = AdmissionDecision::rejected(details);
  EXPECT_EQ(decision.reject_reason(), RejectReason::kCustom);
  EXPECT_EQ(decision.text(), "Reject: closed for repairs");
  EXPECT_STREQ(to_string(decision.verdict), "Reject");
}

}  // namespace
}  // namespace gpk::runtime
