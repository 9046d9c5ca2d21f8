#include "runtime/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "runtime/error.h"
#include "runtime/partition_compute.h"
#include "runtime/partition_ledger.h"
#include "runtime/partition_manager.h"
#include "runtime/scheduler.h"

namespace gpk::runtime {
namespace {

using Charge = PartitionManager::Charge;

Error::Kind kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error::Kind::kMemory;
}

PartitionLimits limits(std::size_t bytes, double share = 0.1) {
  return PartitionLimits().memory(bytes).compute(share).bandwidth(share);
}

TEST(RuntimePartition, Limits) {
  const PartitionLimits defaults;
  EXPECT_EQ(defaults.memory_quota_bytes, 0u);
  EXPECT_EQ(defaults.compute_share, 1.0);
  EXPECT_EQ(defaults.bandwidth_share, 1.0);
  EXPECT_EQ(defaults.max_streams, 16u);
  EXPECT_EQ(defaults.max_pending_kernels, 1024u);
  EXPECT_EQ(defaults.max_pending_transfers, 256u);
  EXPECT_EQ(PartitionLimits::with_memory(7).memory_quota_bytes, 7u);
  EXPECT_EQ(PartitionLimits::with_compute(0.3).compute_share, 0.3);
  EXPECT_EQ(PartitionLimits().compute(1.5).compute_share, 1.0);
  EXPECT_EQ(PartitionLimits().bandwidth(-1).bandwidth_share, 0.0);
  EXPECT_EQ(kind_of([] { (void)PartitionLimits().compute(std::nan("")); }), Error::Kind::kValue);
}

TEST(RuntimePartition, CreateGetDelete) {
  PartitionManager manager({.total_memory_bytes = 1000});
  EXPECT_FALSE(manager.default_partition());
  manager.create_partition("a", "first", limits(400, 0.5));
  manager.create_partition("b", "second", limits(600, 0.5));
  EXPECT_EQ(manager.default_partition(), "a");
  EXPECT_EQ(manager.partition_ids(), (std::vector<std::string>{"a", "b"}));
  const auto a = manager.get("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->name, "first");
  EXPECT_TRUE(a->enabled);
  EXPECT_FALSE(manager.get("c"));
  const PartitionStats stats = manager.stats();
  EXPECT_EQ(stats.partition_count, 2u);
  EXPECT_EQ(stats.total_memory_allocated_bytes, 1000u);
  EXPECT_EQ(stats.available_memory_bytes, 0u);
  EXPECT_EQ(stats.total_compute_allocated, 1.0);
  EXPECT_EQ(stats.available_bandwidth, 0.0);
  EXPECT_EQ(manager.delete_partition("a").id, "a");
  EXPECT_EQ(manager.default_partition(), "b");
  EXPECT_EQ(manager.stats().available_memory_bytes, 400u);
  EXPECT_EQ(manager.stats().available_compute, 0.5);
  manager.clear();
  EXPECT_EQ(manager.stats().partition_count, 0u);
  EXPECT_FALSE(manager.default_partition());
}

TEST(RuntimePartition, WhatIsLeftCannotBePassed) {
  PartitionManager manager({.total_memory_bytes = 1000});
  manager.create_partition("a", "", limits(600, 0.5));
  EXPECT_EQ(kind_of([&] { manager.create_partition("a", "", limits(1)); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.create_partition("", "", limits(1)); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.create_partition("b", "", limits(401)); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { manager.create_partition("b", "", limits(1).compute(0.6)); }),
            Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { manager.create_partition("b", "", PartitionLimits().compute(0.1)); }),
            Error::Kind::kState);  // bandwidth 1.0 by default
  PartitionLimits broken = limits(1);
  broken.compute_share = 1.5;
  EXPECT_EQ(kind_of([&] { manager.create_partition("b", "", broken); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.delete_partition("b"); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.set_default("b"); }), Error::Kind::kValue);
  EXPECT_EQ(manager.partition_ids(), std::vector<std::string>{"a"});
  // Tenths add up to exactly one.
  PartitionManager tenths;
  for (int i = 0; i < 10; ++i) tenths.create_partition(std::to_string(i), "", limits(0, 0.1));
  EXPECT_EQ(tenths.stats().available_compute, 0.0);
}

TEST(RuntimePartition, Overcommit) {
  PartitionManager any({.total_memory_bytes = 1000, .allow_overcommit = true});
  any.create_partition("a", "", PartitionLimits::with_memory(900));
  any.create_partition("b", "", PartitionLimits::with_memory(900));
  EXPECT_EQ(any.charge_memory("a", 900), Charge::kGranted);
  EXPECT_EQ(any.charge_memory("b", 101), Charge::kDeviceFull);  // the device is never passed
  EXPECT_EQ(any.charge_memory("b", 100), Charge::kGranted);

  PartitionManager half(
      {.total_memory_bytes = 1000, .allow_overcommit = true, .overcommit_ratio = 1.5});
  half.create_partition("a", "", limits(900, 0.9));
  half.create_partition("b", "", limits(600, 0.6));
  EXPECT_EQ(kind_of([&] { half.create_partition("c", "", limits(1, 0.0)); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { half.create_partition("c", "", limits(0, 0.1)); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([] { PartitionManager({.overcommit_ratio = 0.5}); }), Error::Kind::kValue);
}

TEST(RuntimePartition, TasksBelongToOnePartition) {
  PartitionManager manager;
  EXPECT_FALSE(manager.get_task_partition("t"));
  manager.create_partition("a", "", limits(1));
  manager.create_partition("b", "", limits(1));
  EXPECT_EQ(manager.get_task_partition("t"), "a");  // the default
  manager.assign_task("t", "b");
  EXPECT_EQ(manager.get_task_partition("t"), "b");
  manager.assign_task("t", "a");
  EXPECT_TRUE(manager.get("b")->tasks.empty());
  EXPECT_EQ(manager.get("a")->tasks, std::set<std::string>{"t"});
  manager.set_default("b");
  EXPECT_EQ(manager.get_task_partition("other"), "b");
  EXPECT_EQ(kind_of([&] { manager.assign_task("t", "c"); }), Error::Kind::kValue);
  EXPECT_TRUE(manager.unassign_task("t"));
  EXPECT_FALSE(manager.unassign_task("t"));
  manager.assign_task("t", "a");
  EXPECT_EQ(manager.delete_partition("a").tasks.size(), 1u);
  EXPECT_EQ(manager.get_task_partition("t"), "b");
}

TEST(RuntimePartition, MemoryIsRefusedOverTheQuotaWhileTheNeighbourGoesOn) {
  PartitionManager manager({.total_memory_bytes = 1000});
  manager.create_partition("a", "", limits(300));
  manager.create_partition("b", "", limits(500));
  EXPECT_EQ(manager.charge_memory("a", 300), Charge::kGranted);
  EXPECT_EQ(manager.charge_memory("a", 1), Charge::kPartitionFull);
  EXPECT_EQ(manager.charge_memory("b", 500), Charge::kGranted);
  EXPECT_EQ(manager.get("a")->usage.num_refused, 1u);
  EXPECT_EQ(manager.get("a")->memory_utilization(), 1.0);
  manager.refund_memory("a", 100);
  EXPECT_EQ(manager.charge_memory("a", 100), Charge::kGranted);
  EXPECT_EQ(manager.get("a")->usage.peak_memory_bytes, 300u);
  EXPECT_EQ(kind_of([&] { manager.refund_memory("a", 301); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.charge_memory("c", 1); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.delete_partition("a"); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { manager.clear(); }), Error::Kind::kState);
  manager.refund_memory("a", 300);
  manager.delete_partition("a");
}

TEST(RuntimePartition, AQuotaIsAPromise) {
  PartitionManager manager({.total_memory_bytes = 1000});
  manager.create_partition("quota", "", limits(600));
  manager.create_partition("free1", "", limits(0));
  manager.create_partition("free2", "", limits(0));
  EXPECT_EQ(manager.charge_memory("free1", 300), Charge::kGranted);
  EXPECT_EQ(manager.charge_memory("free2", 101), Charge::kPartitionFull);  // 400 for both
  EXPECT_EQ(manager.charge_memory("free2", 100), Charge::kGranted);
  EXPECT_EQ(manager.available_memory_bytes("free1"), 0u);
  EXPECT_EQ(manager.memory_limit_bytes("free1"), 400u);
  EXPECT_EQ(manager.charge_memory("quota", 600), Charge::kGranted);
  EXPECT_EQ(manager.get("free1")->memory_utilization(), 0.0);
  // What the free ones use cannot be promised to a new one.
  EXPECT_EQ(kind_of([&] { manager.create_partition("late", "", limits(1)); }), Error::Kind::kState);
  manager.refund_memory("free1", 300);
  manager.create_partition("late", "", limits(300));
  EXPECT_EQ(manager.charge_memory("late", 300), Charge::kGranted);
}

TEST(RuntimePartition, StreamsKernelsAndTransfersAreCounted) {
  PartitionManager manager;
  PartitionLimits small = limits(0);
  small.max_streams = 2;
  small.max_pending_kernels = 1;
  small.max_pending_transfers = 1;
  manager.create_partition("a", "", small);
  EXPECT_TRUE(manager.open_stream("a"));
  EXPECT_TRUE(manager.open_stream("a"));
  EXPECT_FALSE(manager.open_stream("a"));
  manager.close_stream("a");
  EXPECT_TRUE(manager.open_stream("a"));
  EXPECT_TRUE(manager.begin_kernel("a"));
  EXPECT_FALSE(manager.begin_kernel("a"));
  manager.end_kernel("a", 1'500'000);
  EXPECT_TRUE(manager.begin_transfer("a"));
  EXPECT_FALSE(manager.begin_transfer("a"));
  manager.end_transfer("a", 4096);
  const PartitionUsage usage = manager.get("a")->usage;
  EXPECT_EQ(usage.active_streams, 2u);
  EXPECT_EQ(usage.total_kernels, 1u);
  EXPECT_EQ(usage.total_transfers, 1u);
  EXPECT_EQ(usage.transferred_bytes, 4096u);
  EXPECT_EQ(usage.compute_time_ms(), 1.5);
  EXPECT_EQ(usage.num_refused, 3u);
  EXPECT_EQ(kind_of([&] { manager.end_kernel("a", 0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.end_kernel("a", -1); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.end_transfer("a", 0); }), Error::Kind::kValue);
  manager.close_stream("a");
  manager.close_stream("a");
  EXPECT_EQ(kind_of([&] { manager.close_stream("a"); }), Error::Kind::kValue);
}

TEST(RuntimePartition, ADisabledPartitionGetsNothingNew) {
  PartitionManager manager;
  manager.create_partition("a", "", limits(100));
  EXPECT_EQ(manager.charge_memory("a", 10), Charge::kGranted);
  EXPECT_TRUE(manager.begin_kernel("a"));
  manager.set_enabled("a", false);
  EXPECT_EQ(manager.stats().active_partitions, 0u);
  EXPECT_EQ(manager.charge_memory("a", 10), Charge::kPartitionFull);
  EXPECT_EQ(manager.available_memory_bytes("a"), 0u);
  EXPECT_FALSE(manager.begin_kernel("a"));
  EXPECT_FALSE(manager.open_stream("a"));
  manager.end_kernel("a", 1);  // what runs may end
  manager.refund_memory("a", 10);
  manager.set_enabled("a", true);
  EXPECT_EQ(manager.charge_memory("a", 10), Charge::kGranted);
}

TEST(RuntimePartition, TheSchedulerReservesFromPartitions) {
  const auto manager =
      std::make_shared<PartitionManager>(PartitionConfig{.total_memory_bytes = 1000});
  manager->create_partition("a", "", limits(300));
  manager->create_partition("b", "", limits(700));
  Scheduler scheduler(std::make_shared<PartitionLedger>(manager));
  const TaskId a1 = scheduler.submit({.account = "a", .memory_bytes = 200});
  const TaskId a2 = scheduler.submit({.account = "a", .memory_bytes = 200});
  const TaskId b = scheduler.submit({.account = "b", .memory_bytes = 700});
  EXPECT_EQ(scheduler.state(a1), TaskState::kAdmitted);
  EXPECT_EQ(scheduler.state(a2), TaskState::kQueued);
  EXPECT_EQ(scheduler.info(a2).wait_reason, WaitReason::kAccountMemory);
  EXPECT_EQ(scheduler.state(b), TaskState::kAdmitted);
  EXPECT_EQ(manager->get("a")->usage.memory_used_bytes, 200u);
  EXPECT_EQ(kind_of([&] { scheduler.submit({.account = "a", .memory_bytes = 301}); }),
            Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { scheduler.submit({.account = "none", .memory_bytes = 1}); }),
            Error::Kind::kMemory);
  scheduler.cancel(a1);
  EXPECT_EQ(scheduler.state(a2), TaskState::kAdmitted);
  SchedulerSnapshot snapshot = scheduler.snapshot();
  snapshot.partitions = manager->partitions();
  EXPECT_NE(snapshot.text().find("partition"), std::string::npos);
  scheduler.clear();
  EXPECT_EQ(manager->stats().memory_used_bytes, 0u);
  EXPECT_THROW(PartitionLedger(nullptr), Error);
}

TEST(RuntimePartition, RandomChargesNeverPassAQuota) {
  const std::size_t num_wanted = std::getenv("GPK_TEST_LONG") != nullptr ? 10'000'000 : 60'000;
  std::mt19937_64 random(5);
  constexpr std::size_t kTotal = 10'000;
  PartitionManager manager({.total_memory_bytes = kTotal});
  struct ModelPartition {
    std::size_t quota = 0;
    std::vector<std::size_t> charges;
    std::size_t used = 0;
  };
  std::map<std::string, ModelPartition> model;
  std::size_t num_granted = 0;
  std::size_t num_refused = 0;
  for (std::size_t i = 0; i < num_wanted; ++i) {
    const std::string id = std::to_string(random() % 6);
    const auto found = model.find(id);
    std::size_t quotas = 0;
    std::size_t used = 0;
    std::size_t unquoted = 0;
    for (const auto& [key, partition] : model) {
      quotas += partition.quota;
      used += partition.used;
      if (partition.quota == 0) unquoted += partition.used;
    }
    ASSERT_LE(used, kTotal);
    if (found == model.end()) {
      const std::size_t quota = random() % 4 == 0 ? 0 : random() % 4000;
      bool created = true;
      try {
        manager.create_partition(id, "", limits(quota));
      } catch (const Error& error) {
        created = false;
        ASSERT_EQ(error.kind(), Error::Kind::kState);
      }
      ASSERT_EQ(created, quota == 0 || quotas + unquoted + quota <= kTotal);
      if (created) model[id].quota = quota;
      continue;
    }
    ModelPartition& partition = found->second;
    if (partition.charges.empty() && random() % 50 == 0) {
      manager.delete_partition(id);
      model.erase(found);
      continue;
    }
    if (!partition.charges.empty() && random() % 2 == 0) {
      const std::size_t k = random() % partition.charges.size();
      manager.refund_memory(id, partition.charges[k]);
      partition.used -= partition.charges[k];
      partition.charges.erase(partition.charges.begin() + static_cast<std::ptrdiff_t>(k));
      continue;
    }
    const std::size_t bytes = random() % 1500;
    const bool fits = partition.quota != 0 ? partition.used + bytes <= partition.quota
                                           : unquoted + bytes <= kTotal - quotas;
    const bool granted = manager.charge_memory(id, bytes) == Charge::kGranted;
    ASSERT_EQ(granted, fits);
    (granted ? num_granted : num_refused) += 1;
    if (granted) {
      partition.charges.push_back(bytes);
      partition.used += bytes;
    }
  }
  EXPECT_GT(num_granted, num_wanted / 20);
  EXPECT_GT(num_refused, num_wanted / 100);
  for (auto& [id, partition] : model)
    for (const std::size_t bytes : partition.charges) manager.refund_memory(id, bytes);
  EXPECT_EQ(manager.stats().memory_used_bytes, 0u);
}

TEST(RuntimePartition, ThreadsChargeWithinTheQuota) {
  PartitionManager manager({.total_memory_bytes = 1000});
  manager.create_partition("a", "", limits(500));
  manager.create_partition("b", "", limits(500));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&manager, t] {
        const std::string id = t % 2 == 0 ? "a" : "b";
        for (int i = 0; i < 3000; ++i) {
          const auto bytes = static_cast<std::size_t>(100 + i % 200);
          if (manager.charge_memory(id, bytes) != Charge::kGranted) continue;
          EXPECT_LE(manager.get(id)->usage.memory_used_bytes, 500u);
          manager.refund_memory(id, bytes);
        }
      });
    }
  }
  EXPECT_EQ(manager.stats().memory_used_bytes, 0u);
}

// --- compute shares ----------------------------------------------------------------------------

std::vector<std::size_t> given(const SmSplit& split) {
  std::vector<std::size_t> sms;
  for (const SmShare& part : split.parts) sms.push_back(part.given_sms);
  return sms;
}

TEST(RuntimePartitionCompute, SplitsOfAnH200) {
  const double quarters[] = {0.75, 0.25};
  const SmSplit split = split_sms(132, 8, quarters);
  EXPECT_EQ(given(split), (std::vector<std::size_t>{100, 32}));  // asked 99 and 33
  EXPECT_TRUE(split.parts[0].takes_rest);
  EXPECT_FALSE(split.parts[1].takes_rest);
  EXPECT_EQ(split.unassigned_sms, 0u);
  EXPECT_DOUBLE_EQ(split.parts[0].asked_sms, 99.0);
  EXPECT_DOUBLE_EQ(split.parts[1].given_share, 32.0 / 132);
  EXPECT_LT(split.max_error, 0.01);

  const double thirds[] = {0.5, 0.25, 0.25};
  const SmSplit three = split_sms(132, 8, thirds);  // asked 66, 33, 33
  EXPECT_EQ(given(three), (std::vector<std::size_t>{68, 32, 32}));

  const double part[] = {0.5};
  const SmSplit one = split_sms(132, 8, part);
  EXPECT_EQ(given(one), std::vector<std::size_t>{64});
  EXPECT_EQ(one.unassigned_sms, 68u);
  const double all[] = {1.0};
  EXPECT_EQ(given(split_sms(132, 8, all)), std::vector<std::size_t>{132});
}

TEST(RuntimePartitionCompute, SmallSharesGetOneGranule) {
  const double shares[] = {0.97, 0.01, 0.01, 0.01};
  const SmSplit split = split_sms(132, 8, shares);
  EXPECT_EQ(given(split), (std::vector<std::size_t>{108, 8, 8, 8}));
  const double with_none[] = {0.5, 0.0, 0.5};
  EXPECT_EQ(given(split_sms(16, 2, with_none)), (std::vector<std::size_t>{8, 0, 8}));
  const double none[] = {0.0};
  EXPECT_EQ(split_sms(16, 2, none).unassigned_sms, 16u);
  EXPECT_EQ(split_sms(16, 2, {}).unassigned_sms, 16u);
}

TEST(RuntimePartitionCompute, TiesGoToTheEarlier) {
  const double thirds[] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
  EXPECT_EQ(given(split_sms(16, 2, thirds)), (std::vector<std::size_t>{6, 6, 4}));
  EXPECT_EQ(given(split_sms(7, 1, thirds)), (std::vector<std::size_t>{3, 2, 2}));
}

TEST(RuntimePartitionCompute, BadInput) {
  const double half[] = {0.5};
  const double over[] = {0.6, 0.6};
  const double negative[] = {-0.1};
  const double nan[] = {std::nan("")};
  const double many[] = {0.2, 0.2, 0.2};
  EXPECT_EQ(kind_of([&] { (void)split_sms(0, 1, half); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 0, half); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 9, half); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 1, over); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 1, negative); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 1, nan); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)split_sms(8, 4, many); }), Error::Kind::kState);
}

TEST(RuntimePartitionCompute, RandomSplitsKeepTheirPromises) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t total = 1 + random() % 200;
    const std::size_t granule = 1 + random() % std::min<std::size_t>(total, 8);
    const std::size_t num_parts = 1 + random() % std::min<std::size_t>(total / granule, 6);
    std::vector<double> shares;
    double left = 1.0;
    for (std::size_t k = 0; k < num_parts; ++k) {
      const bool last = k + 1 == num_parts && random() % 2 == 0;
      const double share = last ? left : left * static_cast<double>(random() % 100) / 100;
      shares.push_back(share);
      left -= share;
    }
    const SmSplit split = split_sms(total, granule, shares);
    std::size_t sum = split.unassigned_sms;
    std::size_t num_rest = 0;
    for (std::size_t k = 0; k < num_parts; ++k) {
      const SmShare& part = split.parts[k];
      sum += part.given_sms;
      num_rest += part.takes_rest ? 1 : 0;
      ASSERT_EQ(part.given_sms > 0, share_ppb(shares[k], "") > 0);
      if (!part.takes_rest) {
        ASSERT_EQ(part.given_sms % granule, 0u);
      }
      // Nobody is above its due by more than one granule, rest and minimum aside.
      if (!part.takes_rest && part.given_sms > granule) {
        ASSERT_LT(static_cast<double>(part.given_sms),
                  part.asked_sms + static_cast<double>(granule));
      }
    }
    ASSERT_EQ(sum, total);
    ASSERT_LE(num_rest, 1u);
  }
}

}  // namespace
}  // namespace gpk::runtime
