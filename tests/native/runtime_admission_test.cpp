#include "runtime/scheduler/admission.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "runtime/error.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

AdmissionConfig strict(std::size_t memory, double bandwidth = 1.0, std::size_t pending = 1000) {
  return AdmissionConfig(memory, bandwidth, pending, false);
}

TEST(RuntimeAdmission, AdmitReservesAndReleaseGivesBackExactly) {
  AdmissionController controller(AdmissionConfig(1000, 1.0));
  const AdmissionDecision decision = controller.try_admit("a", 400, 0.25);
  EXPECT_TRUE(decision.is_admitted());
  EXPECT_FALSE(decision.reject_reason());
  EXPECT_EQ(decision.reserved_memory_bytes, 400u);
  EXPECT_DOUBLE_EQ(decision.reserved_bandwidth(), 0.25);
  EXPECT_EQ(decision.text(), "Admit: reserves 400 B memory and 0.25 bandwidth");
  const AdmissionStats held = controller.stats();
  EXPECT_EQ(held.reserved_memory_bytes, 400u);
  EXPECT_EQ(held.available_memory_bytes, 600u);
  EXPECT_DOUBLE_EQ(held.reserved_bandwidth, 0.25);
  EXPECT_DOUBLE_EQ(held.available_bandwidth, 0.75);
  EXPECT_EQ(held.pending_count, 1u);
  controller.release("a");
  const AdmissionStats after = controller.stats();
  EXPECT_EQ(after.reserved_memory_bytes, 0u);
  EXPECT_EQ(after.reserved_bandwidth, 0.0);
  EXPECT_EQ(after.pending_count, 0u);
  EXPECT_EQ(after.admitted_count, 1u);
}

TEST(RuntimeAdmission, TheEstimateRuleOf02Holds) {
  AdmissionController controller(strict(kGiB, 0.5));
  const AdmissionDecision decision = controller.try_admit("a", 600 * kMiB, 0.0);
  EXPECT_TRUE(decision.is_rejected());
  EXPECT_EQ(decision.reject_reason(), RejectReason::kInsufficientBandwidth);
  EXPECT_EQ(decision.details->message(),
            "Insufficient bandwidth: requested 0.5859375, available 0.5");
  // A bandwidth that is given counts instead of the estimate.
  EXPECT_TRUE(controller.try_admit("b", 600 * kMiB, 0.2).is_admitted());
  EXPECT_EQ(controller.try_admit("c", kMiB, 0.4).reject_reason(),
            RejectReason::kInsufficientBandwidth);
  EXPECT_DOUBLE_EQ(controller.stats().reserved_bandwidth, 0.2);
}

TEST(RuntimeAdmission, EstimatesNeverStandInTheWayOfWhatFits) {
  for (std::size_t n = 1; n <= 60; ++n) {
    AdmissionController controller(strict(60 * n));
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_TRUE(controller.try_admit(std::to_string(i), 60, 0.0).is_admitted()) << i << "/" << n;
    EXPECT_EQ(controller.try_admit("more", 1, 0.0).reject_reason(),
              RejectReason::kInsufficientMemory);
  }
}

TEST(RuntimeAdmission, DecisionsInTheDocumentedOrder) {
  AdmissionController controller(strict(100, 0.5, 2));
  EXPECT_TRUE(controller.try_admit("a", 40, 0.0).is_admitted());
  // Memory is looked at before bandwidth.
  EXPECT_EQ(controller.try_admit("b", 61, 0.9).reject_reason(), RejectReason::kInsufficientMemory);
  EXPECT_EQ(controller.try_admit("b", 60, 0.9).reject_reason(),
            RejectReason::kInsufficientBandwidth);
  EXPECT_TRUE(controller.try_admit("b", 10, 0.1).is_admitted());
  // The queue before memory.
  const AdmissionDecision full = controller.try_admit("c", 1000, 0.0);
  EXPECT_EQ(full.reject_reason(), RejectReason::kQueueFull);
  EXPECT_EQ(full.text(), "Reject: Queue full: 2 tasks pending, at most 2");
  EXPECT_EQ(controller.stats().rejected_count, 3u);
  EXPECT_EQ(controller.stats().pending_count, 2u);
}

TEST(RuntimeAdmission, ARejectionKnowsItsNumbers) {
  AdmissionController controller(strict(4 * kMiB));
  controller.try_admit("a", 3 * kMiB, 0.1);
  const AdmissionDecision decision = controller.try_admit("b", 2 * kMiB, 0.1);
  ASSERT_TRUE(decision.details);
  EXPECT_EQ(decision.details->requested_memory_bytes, 2 * kMiB);
  EXPECT_EQ(decision.details->available_memory_bytes, kMiB);
  EXPECT_EQ(decision.details->message(),
            "Insufficient memory: requested 2.00 MiB (2097152 bytes), available 1.00 MiB (1048576 "
            "bytes)");
}

TEST(RuntimeAdmission, QueuedTasksHaveAPositionAndAWait) {
  const auto clock = std::make_shared<ManualClock>();
  AdmissionController controller(AdmissionConfig(200'000'000), clock);
  controller.try_admit("a", 200'000'000, 0.1);
  const AdmissionDecision first = controller.try_admit("b", 100, 0.1);
  const AdmissionDecision second = controller.try_admit("c", 100, 0.1);
  EXPECT_TRUE(first.is_queued());
  EXPECT_FALSE(first.reject_reason());
  EXPECT_EQ(first.details->reason_type, RejectReason::kInsufficientMemory);
  EXPECT_EQ(first.queue_position, 1u);
  EXPECT_EQ(second.queue_position, 2u);
  EXPECT_DOUBLE_EQ(first.estimated_wait_ms(), 2000.0);  // 200 MB at 100 MB/s
  EXPECT_FALSE(first.wait_is_measured);
  EXPECT_EQ(controller.queued_ids(), (std::vector<std::string>{"b", "c"}));

  // Measured: one completion every 5 ms while anything was in work.
  clock->advance_ns(5'000'000);
  controller.release("a");
  clock->advance_ns(77'000'000);
  controller.try_admit("d", 200'000'000, 0.1);
  const AdmissionDecision again = controller.try_admit("c", 100, 0.1);
  EXPECT_TRUE(again.is_queued());
  EXPECT_EQ(again.queue_position, 2u);  // d runs, b is before it
  EXPECT_TRUE(again.wait_is_measured);
  EXPECT_DOUBLE_EQ(again.estimated_wait_ms(), 10.0);
  EXPECT_NE(again.text().find("Queue: position 2, about 10.00 ms by measured completions; "
                              "Insufficient memory"),
            std::string::npos)
      << again.text();
  EXPECT_EQ(controller.stats().queued_count, 2u);
}

TEST(RuntimeAdmission, QueuedTasksComeInByRetryOrPromotion) {
  AdmissionController controller(AdmissionConfig(100));
  controller.try_admit("a", 80, 0.1);
  EXPECT_TRUE(controller.try_admit("b", 70, 0.1).is_queued());
  EXPECT_TRUE(controller.try_admit("c", 40, 0.1).is_queued());
  EXPECT_TRUE(controller.try_admit("d", 30, 0.1).is_queued());
  EXPECT_TRUE(controller.promote().empty());
  controller.release("a");
  const auto promoted = controller.promote();  // c does not fit beside b, d does
  ASSERT_EQ(promoted.size(), 2u);
  EXPECT_EQ(promoted[0].first, "b");
  EXPECT_EQ(promoted[1].first, "d");
  EXPECT_EQ(controller.stats().reserved_memory_bytes, 100u);
  controller.release("b");
  EXPECT_TRUE(controller.try_admit("c", 40, 0.1).is_admitted());
  controller.release("c");
  controller.release("d");
  EXPECT_EQ(controller.stats().reserved_memory_bytes, 0u);
  EXPECT_EQ(controller.stats().reserved_bandwidth, 0.0);
}

TEST(RuntimeAdmission, AQueuedTaskCanGiveUpItsPlace) {
  AdmissionController controller(AdmissionConfig(100));
  controller.try_admit("a", 80, 0.1);
  controller.try_admit("b", 70, 0.1);
  controller.release("b");
  EXPECT_EQ(controller.stats().pending_count, 1u);
  EXPECT_EQ(controller.stats().reserved_memory_bytes, 80u);
  EXPECT_TRUE(controller.queued_ids().empty());
}

TEST(RuntimeAdmission, WhatNeverFitsIsQueuedAsIn02OrRejectedWhenAsked) {
  AdmissionConfig config(100);
  EXPECT_TRUE(AdmissionController(config).try_admit("a", 101, 0.0).is_queued());
  config.reject_impossible = true;
  AdmissionController controller(config);
  EXPECT_EQ(controller.try_admit("a", 101, 0.0).reject_reason(), RejectReason::kInsufficientMemory);
  EXPECT_EQ(controller.try_admit("a", 1, 1.1).reject_reason(),
            RejectReason::kInsufficientBandwidth);
  EXPECT_EQ(controller.stats().pending_count, 0u);
}

TEST(RuntimeAdmission, EvaluateChangesNothing) {
  AdmissionController controller(AdmissionConfig(100));
  EXPECT_TRUE(controller.evaluate(60, 0.0).is_admitted());
  EXPECT_TRUE(controller.evaluate(101, 0.0).is_queued());
  EXPECT_EQ(controller.stats().pending_count, 0u);
  EXPECT_EQ(controller.stats().admitted_count, 0u);
}

TEST(RuntimeAdmission, BadInputIsAValueError) {
  AdmissionController controller(AdmissionConfig(100));
  controller.try_admit("a", 1, 0.0);
  EXPECT_EQ(kind_of([&] { controller.try_admit("a", 1, 0.0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { controller.try_admit("b", 1, -0.5); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { controller.try_admit("b", 1, std::nan("")); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { controller.release("b"); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { AdmissionConfig(1, -1.0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { AdmissionController(AdmissionConfig(1), nullptr); }),
            Error::Kind::kValue);
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

// --- against a model ---------------------------------------------------------------------------

struct ModelEntry {
  std::size_t bytes = 0;
  SharePpb ppb = 0;
  bool admitted = false;
};

TEST(RuntimeAdmission, RandomAdmissionsNeverPassALimit) {
  const std::size_t num_wanted = std::getenv("GPK_TEST_LONG") != nullptr ? 10'000'000 : 60'000;
  std::mt19937_64 random(7);
  std::size_t num_admissions = 0;
  for (int round = 0; num_admissions < num_wanted; ++round) {
    const std::size_t max_bytes = 500 + random() % 2000;
    const std::size_t max_pending = 1 + random() % 40;
    const bool best_effort = random() % 2 == 0;
    const double max_bandwidth = static_cast<double>(random() % 200) / 100;
    AdmissionController controller(
        AdmissionConfig(max_bytes, max_bandwidth, max_pending, best_effort));
    std::map<std::string, ModelEntry> model;
    std::size_t held_bytes = 0;
    SharePpb held_ppb = 0;
    const SharePpb max_ppb = share_ppb(max_bandwidth, "");
    for (int i = 0; i < 500 || (num_wanted > 60'000 && i < 50'000); ++i) {
      const std::string id = std::to_string(random() % 60);
      const auto known = model.find(id);
      if (known != model.end() && (known->second.admitted || random() % 2 == 0)) {
        controller.release(id);
        if (known->second.admitted) {
          held_bytes -= known->second.bytes;
          held_ppb -= known->second.ppb;
        }
        model.erase(known);
        continue;
      }
      const std::size_t bytes = random() % 700;
      const SharePpb given =
          random() % 2 == 0 ? 0 : static_cast<SharePpb>(random() % 50) * 10'000'000;
      const SharePpb ppb = given > 0 ? given
                                     : static_cast<SharePpb>(static_cast<double>(bytes) /
                                                             static_cast<double>(max_bytes) * 1e9);
      const AdmissionDecision decision = controller.try_admit(id, bytes, share_of_ppb(given));
      ++num_admissions;
      std::size_t num_others = model.size();
      if (known != model.end()) {  // tried again: only those before it count, which are fewer
        num_others = decision.queue_position;
        ASSERT_LT(num_others, model.size());
      }
      const bool fits = bytes <= max_bytes - held_bytes && ppb <= max_ppb - held_ppb;
      if (num_others >= max_pending) {
        ASSERT_EQ(decision.reject_reason(), RejectReason::kQueueFull);
      } else if (fits) {
        ASSERT_TRUE(decision.is_admitted());
        ASSERT_EQ(decision.reserved_memory_bytes, bytes);
        ASSERT_EQ(decision.reserved_bandwidth_ppb, ppb);
      } else {
        ASSERT_EQ(decision.is_queued(), best_effort);
        ASSERT_EQ(decision.is_rejected(), !best_effort);
      }
      if (decision.is_rejected()) {
        if (known != model.end()) model.erase(known);
        continue;
      }
      model[id] = {bytes, ppb, decision.is_admitted()};
      if (decision.is_admitted()) {
        held_bytes += bytes;
        held_ppb += ppb;
      }
      ASSERT_LE(held_bytes, max_bytes);
      ASSERT_LE(held_ppb, max_ppb);
      const AdmissionStats stats = controller.stats();
      ASSERT_EQ(stats.reserved_memory_bytes, held_bytes);
      ASSERT_EQ(stats.reserved_bandwidth, share_of_ppb(held_ppb));
      ASSERT_EQ(stats.pending_count, model.size());
    }
    for (const auto& [id, entry] : model) controller.release(id);
    const AdmissionStats stats = controller.stats();
    ASSERT_EQ(stats.reserved_memory_bytes, 0u);
    ASSERT_EQ(stats.reserved_bandwidth, 0.0);
    ASSERT_EQ(stats.pending_count, 0u);
  }
}

TEST(RuntimeAdmission, ThreadsAdmitAndReleaseWithinTheLimit) {
  AdmissionController controller(AdmissionConfig(1000));
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < 2000; ++i) {
        const std::string id = std::to_string(t) + "." + std::to_string(i);
        const AdmissionDecision decision = controller.try_admit(id, random() % 600, 0.1);
        EXPECT_LE(controller.stats().reserved_memory_bytes, 1000u);
        if (!decision.is_rejected()) controller.release(id);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(controller.stats().reserved_memory_bytes, 0u);
  EXPECT_EQ(controller.stats().reserved_bandwidth, 0.0);
}

}  // namespace
}  // namespace gpk::runtime
