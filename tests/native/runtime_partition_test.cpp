#include "runtime/sharing/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "runtime/error.h"
#include "runtime/scheduler/scheduler.h"
#include "runtime/sharing/partition_ledger.h"
#include "runtime/sharing/partition_manager.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

using Charge = PartitionManager::Charge;

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

}  // namespace
}  // namespace gpk::runtime
