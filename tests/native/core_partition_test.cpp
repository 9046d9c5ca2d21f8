// Partitions on the fake driver: green contexts, pacing instead, memory, streams, closing.
#include <thread>

#include "base/error.h"
#include "core/array.h"
#include "core/stream_tenant.h"
#include "device/device_partition.h"
#include "device/host_copy.h"
#include "device/memory_account.h"
#include "device/transfers.h"
#include "expect.h"
#include "fake_driver/graph_fixture.h"

namespace gpk {
namespace {

using runtime::QosClass;

class PartitionTest : public GraphTest {
 protected:
  static device::PartitionRequest request(const char* name, double compute = 0.0) {
    device::PartitionRequest request;
    request.name = name;
    request.compute = compute;
    return request;
  }
  static std::shared_ptr<device::DevicePartition> make(const char* name, double compute) {
    return device::DevicePartition::create(kGpu, request(name, compute));
  }
  static Error::Kind refusal(const device::PartitionRequest& request) {
    return kind_of([&] { device::DevicePartition::create(kGpu, request); });
  }
};

TEST_F(PartitionTest, DividesTheMultiprocessorsTogether) {
  const auto large = make("large", 0.75);
  const auto small = make("small", 0.25);
  const device::PartitionReport a = large->report();
  const device::PartitionReport b = small->report();
  EXPECT_EQ(a.compute, device::ComputeLimit::kGreenContext);
  EXPECT_EQ(a.given_sms, 100u);  // twelve granules and the four that make none
  EXPECT_EQ(b.given_sms, 32u);
  EXPECT_EQ(a.granule_sms, 8u);
  EXPECT_EQ(a.total_sms, 132u);
  EXPECT_NEAR(a.given_compute, 0.75, 0.02);
  EXPECT_NEAR(b.given_compute, 0.25, 0.02);
  const auto stream = small->acquire_stream();
  EXPECT_EQ(fake::stream_info(stream->handle()).num_sms, 32u);
  EXPECT_EQ(fake::stream_info(stream->handle()).flags, cu::kStreamNonBlocking);
  small->release_stream(stream);
}

TEST_F(PartitionTest, ThreeParts) {
  const auto a = make("a", 0.5);
  const auto b = make("b", 0.25);
  const auto c = make("c", 0.25);
  EXPECT_EQ(a->report().given_sms, 68u);
  EXPECT_EQ(b->report().given_sms, 32u);
  EXPECT_EQ(c->report().given_sms, 32u);
}

TEST_F(PartitionTest, MultiprocessorsComeBack) {
  for (int i = 0; i < 5; ++i) {
    const auto a = make("a", 0.5);
    const auto b = make("b", 0.5);
    EXPECT_EQ(a->report().given_sms + b->report().given_sms, 132u);
    a->close();
    const auto c = make("c", 0.5);
    EXPECT_GE(c->report().given_sms, 64u);
  }
  EXPECT_EQ(fake::num_live(fake::Kind::kGreenContext), 0u);
}

TEST_F(PartitionTest, LaterPartitionsGetWhatIsLeft) {
  const auto a = make("a", 0.75);
  EXPECT_EQ(a->report().given_sms, 96u);  // alone it cannot know who takes the rest
  const auto b = make("b", 0.25);
  const auto given = b->report().given_sms;
  EXPECT_GE(given, 32u);
  EXPECT_LE(given, 36u);
}

TEST_F(PartitionTest, PacesWhereGreenContextsDoNotWork) {
  fake::set_devices({{.green_launches = false}});
  {
    const auto partition = make("a", 0.5);
    const device::PartitionReport report = partition->report();
    EXPECT_EQ(report.compute, device::ComputeLimit::kPacing);
    EXPECT_EQ(report.granule_sms, 0u);
    EXPECT_CONTAINS(report.compute_note, "CUDA_ERROR");
    EXPECT_EQ(fake::num_live(fake::Kind::kGreenContext), 0u);
  }
}

TEST_F(PartitionTest, PacesWhereThereAreMorePartitionsThanGranules) {
  fake::set_devices({{.num_sms = 16}});
  {
    std::vector<std::shared_ptr<device::DevicePartition>> all;
    for (const char* name : {"a", "b", "c"}) all.push_back(make(name, 0.33));
    for (const auto& partition : all)
      EXPECT_EQ(partition->report().compute, device::ComputeLimit::kPacing);
  }
}

TEST_F(PartitionTest, PrioritiesFollowTheClass) {
  const auto priority = [](const char* name, QosClass qos) {
    device::PartitionRequest asked = request(name);
    asked.qos = qos;
    const auto partition = device::DevicePartition::create(kGpu, asked);
    const auto stream = partition->acquire_stream();
    const int result = fake::stream_info(stream->handle()).priority;
    EXPECT_EQ(result, partition->report().stream_priority);
    partition->release_stream(stream);
    return result;
  };
  EXPECT_EQ(priority("a", QosClass::kGuaranteed), -5);
  EXPECT_EQ(priority("b", QosClass::kBurstable), -2);
  EXPECT_EQ(priority("c", QosClass::kBestEffort), 0);
}

TEST_F(PartitionTest, MemoryBeyondTheLimitIsRefused) {
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  device::PartitionRequest asked = request("small");
  asked.memory_bytes = std::size_t{10} << 20;
  const auto partition = device::DevicePartition::create(kGpu, asked);
  std::optional<Array> kept;
  {
    const device::PartitionScope scope(partition);
    kept = Array::empty({6 * kMib}, DType::kUInt8, kGpu);
    const auto error = thrown<OutOfMemory>([] { Array::empty({6 * kMib}, DType::kUInt8, kGpu); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->numbers().asked_bytes, std::size_t{6} << 20);
    EXPECT_EQ(error->numbers().account_limit_bytes, std::size_t{10} << 20);
    EXPECT_CONTAINS(error->what(), "partition small");
  }
  Array::empty({6 * kMib}, DType::kUInt8, kGpu);  // the neighbour is unaffected
  EXPECT_GE(partition->report().memory.num_refused, 1u);
  EXPECT_GE(partition->report().memory.used_bytes, std::size_t{6} << 20);
  const auto error = thrown<Error>([&] { partition->close(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), Error::Kind::kState);
  EXPECT_CONTAINS(error->what(), "its arrays and tasks hold");
  EXPECT_FALSE(partition->closed());
  kept.reset();
  partition->close();
}

TEST_F(PartitionTest, StreamsAreLimitedAndUsedAgain) {
  device::PartitionRequest asked = request("two");
  asked.max_streams = 2;
  const auto partition = device::DevicePartition::create(kGpu, asked);
  const auto a = partition->acquire_stream();
  const auto b = partition->acquire_stream();
  EXPECT_NE(a, b);
  EXPECT_TRUE(partition->owns(*a));
  EXPECT_FALSE(partition->owns(*Stream::default_for(kGpu)));
  const auto error = thrown<Error>([&] { partition->acquire_stream(); });
  ASSERT_TRUE(error);
  EXPECT_CONTAINS(error->what(), "max_streams");
  EXPECT_THROW(partition->close(), Error);
  partition->release_stream(a);
  EXPECT_EQ(partition->acquire_stream(), a);
  partition->release_stream(a);
  partition->release_stream(b);
  partition->close();
  partition->close();
  EXPECT_TRUE(partition->closed());
  EXPECT_THROW(partition->acquire_stream(), Error);
}

TEST_F(PartitionTest, ClosingReturnsEverything) {
  device::PartitionRequest asked = request("all", 1.0);
  asked.bandwidth = 1.0;
  asked.memory_bytes = std::size_t{80} << 30;
  for (int i = 0; i < 3; ++i) {
    const auto partition = device::DevicePartition::create(kGpu, asked);
    partition->release_stream(partition->acquire_stream());
    EXPECT_EQ(device::device_partitions(kGpu).size(), 1u);
    partition->close();
    EXPECT_TRUE(device::device_partitions(kGpu).empty());
  }
}

TEST_F(PartitionTest, AStreamKeptAfterClosingStillWorks) {
  device::PartitionRequest asked = request("gone", 0.5);
  asked.bandwidth = 0.5;
  asked.memory_bytes = 100;
  auto partition = device::DevicePartition::create(kGpu, asked);
  auto stream = partition->acquire_stream();
  partition->release_stream(stream);
  partition->close();
  partition.reset();
  {
    const StreamScope scope(stream);
    const std::vector<unsigned char> data(2 << 20, 7);  // above the old limit, through the engine
    const Array x = device::from_host(data.data(), {2 << 20}, DType::kUInt8, kGpu);
    std::vector<unsigned char> back(2 << 20);
    device::to_host(x, back.data());
    EXPECT_EQ(back, data);
  }
  stream.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kGreenContext), 0u);
}

TEST_F(PartitionTest, ADroppedPartitionLivesAsLongAsItsArrays) {
  auto partition = make("dropped", 0.5);
  std::optional<Array> x;
  {
    const device::PartitionScope scope(partition);
    x = make_ones();
  }
  partition.reset();
  EXPECT_EQ(device::device_partitions(kGpu).size(), 1u);
  EXPECT_EQ(first_of(*x), 1.0f);
  x.reset();
  EXPECT_TRUE(device::device_partitions(kGpu).empty());
  EXPECT_EQ(fake::num_live(fake::Kind::kGreenContext), 0u);
}

TEST_F(PartitionTest, InsideTwiceIsOneStream) {
  const auto partition = make("twice", 0.5);
  const auto outside = current_stream(kGpu);
  {
    const device::PartitionScope outer(partition);
    const auto stream = current_stream(kGpu);
    {
      const device::PartitionScope inner(partition);
      EXPECT_EQ(current_stream(kGpu), stream);
    }
    EXPECT_EQ(current_stream(kGpu), stream);
    EXPECT_EQ(device::current_account(kGpu), partition->account());
  }
  EXPECT_EQ(current_stream(kGpu), outside);
  EXPECT_EQ(device::current_account(kGpu), nullptr);
}

TEST_F(PartitionTest, BadRequests) {
  using Kind = Error::Kind;
  EXPECT_EQ(refusal(request("")), Kind::kValue);
  EXPECT_EQ(refusal(request("a", 1.5)), Kind::kValue);
  device::PartitionRequest asked = request("a");
  asked.max_streams = 0;
  EXPECT_EQ(refusal(asked), Kind::kValue);
  asked = request("a");
  asked.bandwidth = -1.0;
  EXPECT_EQ(refusal(asked), Kind::kValue);
  asked = request("a");
  asked.memory_bytes = std::size_t{81} << 30;
  EXPECT_EQ(refusal(asked), Kind::kState);
  const auto first = make("a", 0.6);
  EXPECT_EQ(refusal(request("a")), Kind::kValue) << "the name is taken";
  EXPECT_EQ(refusal(request("b", 0.5)), Kind::kState) << "too much compute";
  const auto second = make("b", 0.4);
  EXPECT_EQ(second->report().compute, device::ComputeLimit::kGreenContext);
}

TEST_F(PartitionTest, GraphsOfAPartitionAreCapturedOnItsMultiprocessors) {
  const auto partition = make("a", 0.25);
  const auto kernel = load_scale();
  Graph graph(kGpu);
  const auto stream = partition->acquire_stream();
  {
    const StreamScope scope(stream);
    const Array x = make_ones();
    graph.begin_capture();
    EXPECT_EQ(fake::stream_info(graph.stream()->handle()).num_sms, 32u);
    launch_scale(*kernel, x, 2.0f);
    graph.end_capture();
    graph.replay();
    EXPECT_EQ(first_of(x), 2.0f);
  }
  const Array y = make_ones();
  graph.begin_capture();  // outside again
  EXPECT_EQ(fake::stream_info(graph.stream()->handle()).num_sms, 0u);
  launch_scale(*kernel, y, 3.0f);
  graph.end_capture();
  partition->release_stream(stream);
}

TEST_F(PartitionTest, CopiesCountInTheBandwidthShare) {
  device::PartitionRequest asked = request("copies");
  asked.bandwidth = 0.5;
  const auto partition = device::DevicePartition::create(kGpu, asked);
  const auto stream = partition->acquire_stream();
  {
    const StreamScope scope(stream);
    const std::vector<unsigned char> data(3 << 20, 7);
    const Array x = device::from_host(data.data(), {3 << 20}, DType::kUInt8, kGpu);
  }
  partition->release_stream(stream);
  EXPECT_EQ(partition->report().bandwidth_bytes, static_cast<double>(3 << 20));
}

TEST_F(PartitionTest, OnTheCpu) {
  device::PartitionRequest asked = request("cpu", 0.5);
  asked.memory_bytes = 4096;
  const auto partition = device::DevicePartition::create(kCpu, asked);
  {
    const device::PartitionScope scope(partition);
    const Array a = Array::empty({1024}, DType::kUInt8, kCpu);
    EXPECT_THROW(Array::empty({8192}, DType::kUInt8, kCpu), OutOfMemory);
  }
  EXPECT_EQ(partition->report().compute, device::ComputeLimit::kSimulated);
  partition->close();
}

TEST_F(PartitionTest, ALostDeviceDoesNotHang) {
  const auto partition = make("a", 0.5);
  const auto kernel = load_scale();
  expect_leftovers();
  const auto stream = partition->acquire_stream();
  {
    const StreamScope scope(stream);
    const Array x = make_ones();
    fake::fail_next("cuLaunchKernel", cu::kIllegalAddress);
    EXPECT_THROW(launch_scale(*kernel, x, 2.0f), CudaError);
    EXPECT_THROW(launch_scale(*kernel, x, 2.0f), DeviceLostError);
  }
  partition->release_stream(stream);
}

}  // namespace
}  // namespace gpk
