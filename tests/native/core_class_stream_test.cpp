// The three classes on streams: tasks and partitions read one table.
#include "device/class_stream.h"

#include <thread>

#include "core/stream_tenant.h"
#include "device/device_partition.h"
#include "device/device_sharing.h"
#include "device/launch_gate.h"
#include "device/memory_account.h"
#include "device/task_streams.h"
#include "fake_driver/graph_fixture.h"
#include "runtime/scheduler/qos_enforcement.h"

namespace gpk {
namespace {

using runtime::QosClass;

class ClassStreamTest : public GraphTest {
 protected:
  static const device::LaunchGate& gate_of(const Stream& stream) {
    return *static_cast<const device::LaunchGate*>(stream.gate());
  }

  static void expect_by_the_table(const Stream& stream, QosClass qos) {
    const runtime::QosEnforcement rules = runtime::enforcement(qos);
    const int greatest = Context::get(0).greatest_priority();
    EXPECT_EQ(fake::stream_info(stream.handle()).priority,
              runtime::stream_priority(qos, 0, greatest));
    ASSERT_NE(stream.gate(), nullptr);
    const device::LaunchGate::Options& gate = gate_of(stream).options();
    EXPECT_EQ(gate.max_in_flight, rules.max_in_flight);
    EXPECT_EQ(gate.yields, rules.yields);
    EXPECT_EQ(gate.in_foreground, !rules.yields);
    EXPECT_EQ(gate.slice_ns > 0, rules.yields);
  }
};

TEST_F(ClassStreamTest, TasksAndPartitionsFollowTheSameTable) {
  for (const auto qos : {QosClass::kGuaranteed, QosClass::kBurstable, QosClass::kBestEffort}) {
    device::PartitionRequest request;
    request.name = "p";
    request.qos = qos;
    const auto partition = device::DevicePartition::create(kGpu, request);
    const auto of_partition = partition->acquire_stream();
    device::TaskStreams streams(kGpu, 1);
    auto lease = streams.acquire(qos);
    expect_by_the_table(*of_partition, qos);
    expect_by_the_table(*lease.stream, qos);
    EXPECT_EQ(gate_of(*lease.stream).options().foreground,
              gate_of(*of_partition).options().foreground);
    EXPECT_EQ(static_cast<int>(partition->account()->account()->evict_class()),
              runtime::enforcement(qos).eviction_rank);
    streams.finish(std::move(lease), {}, [](const std::exception_ptr&) {});
    while (streams.num_in_use() > 0) std::this_thread::yield();
    partition->release_stream(of_partition);
  }
}

TEST_F(ClassStreamTest, WithoutAClassThereIsNoGate) {
  device::TaskStreams streams(kGpu, 1);
  auto lease = streams.acquire(std::nullopt);
  EXPECT_EQ(lease.stream->gate(), nullptr);
  EXPECT_EQ(fake::stream_info(lease.stream->handle()).priority, 0);
  streams.finish(std::move(lease), {}, [](const std::exception_ptr&) {});
}

// The foreground is the device's: a task of best effort gives way to a guaranteed partition.
TEST_F(ClassStreamTest, TasksGiveWayToPartitions) {
  device::PartitionRequest request;
  request.name = "front";
  request.qos = QosClass::kGuaranteed;
  const auto front = device::DevicePartition::create(kGpu, request);
  device::TaskStreams streams(kGpu, 1);
  auto lease = streams.acquire(QosClass::kBestEffort);
  const auto kernel = load_scale();
  const Array x = make_ones();
  cu::Stream foreground = nullptr;
  {
    const device::PartitionScope inside(front);
    foreground = current_stream(kGpu)->handle();
    fake::set_busy(foreground, true);
    launch_scale(*kernel, x, 2.0f);
  }
  {
    const StreamScope scope(lease.stream);
    launch_scale(*kernel, x, 3.0f);
  }
  EXPECT_EQ(gate_of(*lease.stream).stats().num_held, 1u);
  fake::set_busy(foreground, false);
  streams.finish(std::move(lease), {}, [](const std::exception_ptr&) {});
  while (streams.num_in_use() > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace gpk
