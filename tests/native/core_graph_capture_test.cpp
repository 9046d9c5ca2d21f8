// What may and may not happen while a graph is captured.
#include <cstring>
#include <thread>

#include "base/error.h"
#include "core/event.h"
#include "core/memory.h"
#include "device/device_pool.h"
#include "device/host_copy.h"
#include "device/pool_buffer.h"
#include "fake_driver/graph_fixture.h"

namespace gpk {
namespace {

class CaptureTest : public GraphTest {};

TEST_F(CaptureTest, MemoryOfTheCaptureLivesAsLongAsTheGraph) {
  const auto kernel = load_scale();
  auto graph = std::make_unique<Graph>(kGpu);
  graph->begin_capture();
  const std::size_t before = fake::num_live(fake::Kind::kMemory);
  {
    const Array scratch = Array::empty({4}, DType::kFloat32, kGpu);
    launch_scale(*kernel, scratch, 2.0f);
  }
  graph->end_capture();
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), before + 1);
  EXPECT_EQ(device::device_pool({DeviceKind::kCuda, 0}).trim(), 0u);  // it is the graph's
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), before + 1);
  graph->replay();
  graph.reset();
  device::device_pool({DeviceKind::kCuda, 0}).trim();
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), before);
  EXPECT_EQ(fake::num_live(fake::Kind::kGraph), 0u);
  EXPECT_EQ(fake::num_live(fake::Kind::kGraphExec), 0u);
}

TEST_F(CaptureTest, CaptureReusesItsOwnMemory) {
  const auto kernel = load_scale();
  Graph graph(kGpu);
  graph.begin_capture();
  cu::DevicePtr first = 0;
  {
    const Array scratch = Array::empty({4}, DType::kFloat32, kGpu);
    first = scratch.device_ptr();
    launch_scale(*kernel, scratch, 2.0f);
  }
  EXPECT_EQ(Array::empty({4}, DType::kFloat32, kGpu).device_ptr(), first);
  graph.end_capture();
}

TEST_F(CaptureTest, ArrayMayOutliveItsGraph) {
  const auto kernel = load_scale();
  std::optional<Array> result;
  {
    Graph graph(kGpu);
    graph.begin_capture();
    result = Array::empty({4}, DType::kFloat32, kGpu);
    launch_scale(*kernel, *result, 2.0f);
    graph.end_capture();
    std::memset(result->data(), 0, result->nbytes());
    graph.replay();
  }
  EXPECT_EQ(first_of(*result), 0.0f);
  result.reset();
}

TEST_F(CaptureTest, HostTransfersAreForbiddenInCapture) {
  for (const Device device : {kGpu, kCpu}) {
    const float value = 1.0f;
    const Array x = device::from_host(&value, {1}, DType::kFloat32, device);
    Graph graph(device);
    graph.begin_capture();
    float out = 0.0f;
    EXPECT_CONTAINS(message_of<CaptureError>([&] { device::to_host(x, &out); }), "to_numpy: ");
    EXPECT_CONTAINS(
        message_of<CaptureError>([&] { device::from_host(&value, {1}, DType::kFloat32, device); }),
        "from_numpy: ");
    graph.abandon_capture();
  }
}

TEST_F(CaptureTest, SynchronizeIsForbiddenInCaptureAndDoesNotBreakIt) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  EXPECT_THROW(graph.stream()->synchronize(), CaptureError);
  EXPECT_THROW(graph.synchronize(), CaptureError);
  EXPECT_THROW(graph.reset(), CaptureError);
  launch_scale(*kernel, x, 2.0f);
  EXPECT_NO_THROW(graph.end_capture());
}

TEST_F(CaptureTest, QueryIsForbiddenInCaptureAndDoesNotBreakIt) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  EXPECT_THROW(graph.stream()->query(), CaptureError);
  launch_scale(*kernel, x, 2.0f);
  EXPECT_NO_THROW(graph.end_capture());
}

// As cuStreamQuery, these would break the capture.
TEST_F(CaptureTest, WaitingElsewhereIsForbiddenInCaptureAndDoesNotBreakIt) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  const auto event = Event::create(kGpu, {});
  event->record(*Stream::default_for(kGpu));
  Graph graph(kGpu);
  graph.begin_capture();
  EXPECT_THROW(Stream::default_for(kGpu)->synchronize(), CaptureError);
  EXPECT_THROW(Stream::default_for(kGpu)->query(), CaptureError);
  EXPECT_THROW(event->synchronize(), CaptureError);
  EXPECT_THROW(event->query(), CaptureError);
  EXPECT_THROW(Context::get(0).synchronize(), CaptureError);
  launch_scale(*kernel, x, 2.0f);
  EXPECT_NO_THROW(graph.end_capture());
}

TEST_F(CaptureTest, FirstUseOfThingsMayFallIntoACapture) {
  const Array x = make_ones();
  std::shared_ptr<PinnedMemory> pinned;
  Graph graph(kGpu);
  graph.begin_capture();
  {
    const auto kernel = load_scale();
    pinned = PinnedMemory::allocate(kGpu, 100);
    const auto scratch = Buffer::allocate(kGpu, 100);
    launch_scale(*kernel, x, 2.0f);
  }
  EXPECT_NO_THROW(graph.end_capture());
}

TEST_F(CaptureTest, DroppingPinnedMemoryDoesNotBreakACapture) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  auto pinned = PinnedMemory::allocate(kGpu, 100);
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  pinned.reset();
  EXPECT_NO_THROW(graph.end_capture());
  EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 0u);
}

TEST_F(CaptureTest, DroppingAStreamDoesNotBreakACapture) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  auto other = Stream::create(kGpu, StreamPriority::kLow);
  {
    const StreamScope scope(other);
    Buffer::allocate(kGpu, 4096);  // leaves a cached block on the stream
  }
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  other.reset();
  EXPECT_NO_THROW(graph.end_capture());
}

// An array of before the capture, used in it and dropped in it, as ops do it.
TEST_F(CaptureTest, KeptArrayMayBeDropped) {
  const auto kernel = load_scale();
  auto x = std::make_unique<Array>(make_ones());
  Graph graph(kGpu);
  graph.begin_capture();
  x->buffer()->mark_use(current_stream(kGpu));
  graph.keep(x->buffer());
  launch_scale(*kernel, *x, 2.0f);
  x.reset();
  EXPECT_NO_THROW(graph.end_capture());
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), 1u);
  graph.replay();
}

TEST_F(CaptureTest, CaptureBrokenByAnOperation) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  EXPECT_EQ(driver().cuStreamSynchronize(graph.stream()->handle()), cu::kStreamCaptureUnsupported);
  EXPECT_THROW(launch_scale(*kernel, x, 2.0f), CudaError);
  EXPECT_CONTAINS(message_of<CaptureError>([&] { graph.end_capture(); }), "cannot be captured");
  EXPECT_FALSE(graph.ready());
  EXPECT_EQ(current_stream(kGpu), Stream::default_for(kGpu));
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  EXPECT_NO_THROW(graph.end_capture());
}

TEST_F(CaptureTest, EndingInAnotherThreadIsRefusedAndLeavesTheCapture) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  std::thread([&] { EXPECT_THROW(graph.end_capture(), CaptureError); }).join();
  EXPECT_NO_THROW(graph.end_capture());
}

TEST_F(CaptureTest, OtherThreadsWorkOnDuringACapture) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  std::thread([&] {
    EXPECT_EQ(capturing_graph(), nullptr);
    const Array y = make_ones();
    launch_scale(*kernel, y, 7.0f);
    EXPECT_EQ(first_of(y), 7.0f);
  }).join();
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 1u);
}

TEST_F(CaptureTest, TwoThreadsCaptureAtOnce) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  std::thread([&] {
    const Array y = Array::empty({4}, DType::kFloat32, kGpu);
    Graph other(kGpu);
    EXPECT_NO_THROW({
      other.begin_capture();
      launch_scale(*kernel, y, 7.0f);
      other.end_capture();
    });
  }).join();
  EXPECT_NO_THROW(graph.end_capture());
}

TEST_F(CaptureTest, ForkedStreamsJoinTheCapture) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  const Array y = make_ones();
  const auto side = Stream::create(kGpu, StreamPriority::kLow);
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  side->wait(*graph.stream());
  {
    const StreamScope scope(side);
    launch_scale(*kernel, y, 3.0f);
  }
  graph.stream()->wait(*side);
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 2u);
  EXPECT_TRUE(fake::launches().empty());
  graph.replay();
  EXPECT_EQ(first_of(y), 3.0f);
}

TEST_F(CaptureTest, KernelsOfForkedStreamsLiveAsLongAsTheGraph) {
  const auto main_kernel = load_scale();
  auto side_kernel = load_scale();
  const Array x = make_ones();
  const auto side = Stream::create(kGpu, StreamPriority::kLow);
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*main_kernel, x, 2.0f);
  side->wait(*graph.stream());
  {
    const StreamScope scope(side);
    launch_scale(*side_kernel, x, 3.0f);
  }
  side_kernel.reset();
  graph.stream()->wait(*side);
  graph.end_capture();
  EXPECT_EQ(fake::num_live(fake::Kind::kModule), 2u);
}

// What a captured launch uses must not be released while the graph lives.
TEST_F(CaptureTest, FullDeviceDoesNotFreeMemoryOfTheCapture) {
  fake::set_devices({{.memory_bytes = 8 << 20}});
  const auto kernel = load_scale();
  Graph graph(kGpu);
  graph.begin_capture();
  {
    const Array scratch = Array::empty({1 << 20}, DType::kFloat32, kGpu);
    launch_scale(*kernel, scratch, 2.0f);
  }
  graph.end_capture();
  EXPECT_THROW(Buffer::allocate(kGpu, 8 << 20), OutOfMemory);
  EXPECT_EQ(device::device_pool({DeviceKind::kCuda, 0}).trim(), 0u);
  EXPECT_EQ(fake::used_bytes(0), 4u << 20);
  EXPECT_NO_THROW(Buffer::allocate(kGpu, 4 << 20));
}

TEST_F(CaptureTest, FullDeviceGivesBackWhatTheCommonPoolCaches) {
  fake::set_devices({{.memory_bytes = 8 << 20}});
  Buffer::allocate(kGpu, 8 << 20);
  Graph graph(kGpu);
  graph.begin_capture();
  EXPECT_NO_THROW(Buffer::allocate(kGpu, 8 << 20));
  graph.abandon_capture();
}

// Its kernels find it at every replay.
TEST_F(CaptureTest, EvictedArraysComeBackForACaptureAndStay) {
  expect_copy_stream();
  fake::set_devices({{.memory_bytes = 16 << 20}});
  runtime::Pool& pool = device::device_pool({DeviceKind::kCuda, 0});
  const auto kernel = load_scale();
  const Array x = Array::empty({1 << 20}, DType::kFloat32, kGpu);
  const auto set_ones = [&] {
    auto* values = static_cast<float*>(x.data());
    std::fill(values, values + x.size(), 1.0f);
  };
  set_ones();
  pool.set_evictable(device::pool_block(*x.buffer()), true);
  ASSERT_EQ(pool.evict(device::pool_block(*x.buffer())), 4u << 20);
  {
    Graph graph(kGpu);
    graph.begin_capture();
    {
      const BufferUse use(x.buffer(), current_stream(kGpu));
      graph.keep(x.buffer());
      launch_scale(*kernel, x, 2.0f);
    }
    graph.end_capture();
    EXPECT_FALSE(pool.is_evicted(device::pool_block(*x.buffer())));
    EXPECT_THROW(Buffer::allocate(kGpu, 16 << 20), OutOfMemory);
    EXPECT_FALSE(pool.is_evicted(device::pool_block(*x.buffer())));
    graph.replay();
    EXPECT_EQ(first_of(x), 2.0f);
  }
  EXPECT_NO_THROW(Buffer::allocate(kGpu, 16 << 20));
  EXPECT_TRUE(pool.is_evicted(device::pool_block(*x.buffer())));
  EXPECT_EQ(first_of(x), 2.0f);
}

// Scratch memory of a capture is reused within it, although the graph was told of every array.
TEST_F(CaptureTest, KeptScratchIsReused) {
  const auto kernel = load_scale();
  Graph graph(kGpu);
  graph.begin_capture();
  cu::DevicePtr first = 0;
  for (int i = 0; i < 3; ++i) {
    const Array scratch = Array::empty({4}, DType::kFloat32, kGpu);
    graph.keep(scratch.buffer());
    launch_scale(*kernel, scratch, 2.0f);
    if (first == 0) first = scratch.device_ptr();
    EXPECT_EQ(scratch.device_ptr(), first);
  }
  graph.end_capture();
  graph.replay();
}

// Results of an older capture of the same graph, dropped while it captures anew.
TEST_F(CaptureTest, OldResultsMayBeDroppedInACapture) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  const auto other = Stream::create(kGpu, StreamPriority::kLow);
  Graph graph(kGpu);
  graph.begin_capture();
  auto result = std::make_unique<Array>(Array::empty({4}, DType::kFloat32, kGpu));
  launch_scale(*kernel, *result, 2.0f);
  graph.end_capture();
  result->buffer()->mark_use(other);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  result.reset();
  EXPECT_NO_THROW(graph.end_capture());
}

TEST_F(CaptureTest, MemoryLimitCoversCommonAndPrivatePools) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "8M");
  const auto outside = Buffer::allocate(kGpu, 8 << 20);
  Graph graph(kGpu);
  graph.begin_capture();
  EXPECT_THROW(Buffer::allocate(kGpu, 8192), OutOfMemory);
  graph.abandon_capture();
}

}  // namespace
}  // namespace gpk
