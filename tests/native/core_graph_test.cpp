#include "core/graph.h"

#include <cstring>

#include "base/error.h"
#include "core/memory.h"
#include "fake_driver/graph_fixture.h"

namespace gpk {
namespace {

TEST_F(GraphTest, CaptureRecordsAndReplayRuns) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  EXPECT_FALSE(graph.ready());
  graph.begin_capture();
  EXPECT_TRUE(graph.capturing());
  EXPECT_EQ(capturing_graph(), &graph);
  EXPECT_EQ(current_stream(kGpu), graph.stream());
  EXPECT_TRUE(graph.stream()->capturing());
  launch_scale(*kernel, x, 2.0f);
  launch_scale(*kernel, x, 3.0f);
  EXPECT_TRUE(fake::launches().empty());
  graph.end_capture();
  EXPECT_EQ(capturing_graph(), nullptr);
  EXPECT_EQ(current_stream(kGpu), Stream::default_for(kGpu));
  EXPECT_TRUE(graph.ready());
  EXPECT_EQ(graph.num_nodes(), 2u);
  EXPECT_EQ(graph.launches().size(), 2u);
  EXPECT_EQ(first_of(x), 1.0f);
  graph.replay();
  graph.synchronize();
  EXPECT_EQ(first_of(x), 6.0f);
  graph.replay();
  EXPECT_EQ(first_of(x), 36.0f);
  EXPECT_EQ(fake::launches().size(), 4u);
  EXPECT_EQ(fake::launches()[0].stream, nullptr);  // the current stream
}

TEST_F(GraphTest, CopiesAndFillsAreCaptured) {
  const Array x = make_ones();
  const Array y = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  EXPECT_EQ(driver().cuMemsetD32Async(x.device_ptr(), 0x40000000, 4, graph.stream()->handle()), 0);
  copy_on_device(y.device_ptr(), x.device_ptr(), x.nbytes(), *graph.stream());
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 2u);
  EXPECT_TRUE(graph.launches().empty());
  EXPECT_EQ(first_of(y), 1.0f);
  graph.replay();
  EXPECT_EQ(first_of(y), 2.0f);
}

TEST_F(GraphTest, ReplayOnAnotherStream) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  graph.end_capture();
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  graph.replay(stream);
  EXPECT_EQ(fake::launches().at(0).stream, stream->handle());
  EXPECT_TRUE(fake::launches().at(0).from_graph);
}

TEST_F(GraphTest, CpuBackendRunsRecordedCallsAgain) {
  Graph graph(kCpu);
  int calls = 0;
  graph.begin_capture();
  EXPECT_EQ(capturing_graph(), &graph);
  graph.record_host_call([&] { ++calls; });
  graph.record_host_call([&] { calls *= 10; });
  graph.end_capture();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(graph.num_nodes(), 2u);
  graph.replay();
  EXPECT_EQ(calls, 10);
  graph.replay();
  EXPECT_EQ(calls, 110);
  graph.synchronize();
  EXPECT_EQ(fake::num_calls("cuInit"), 0u);
}

TEST_F(GraphTest, NestedCaptureIsRefused) {
  for (const Device device : {kGpu, kCpu}) {
    Graph outer(device);
    Graph inner(device);
    outer.begin_capture();
    EXPECT_THROW(inner.begin_capture(), CaptureError);
    EXPECT_THROW(outer.begin_capture(), CaptureError);
    EXPECT_THROW(inner.end_capture(), CaptureError);
    EXPECT_EQ(capturing_graph(), &outer);
    outer.abandon_capture();
  }
}

TEST_F(GraphTest, NothingCapturedIsRefused) {
  for (const Device device : {kGpu, kCpu}) {
    Graph graph(device);
    graph.begin_capture();
    EXPECT_CONTAINS(message_of<CaptureError>([&] { graph.end_capture(); }), "nothing was captured");
    EXPECT_FALSE(graph.ready());
    EXPECT_FALSE(graph.capturing());
    EXPECT_EQ(capturing_graph(), nullptr);
    EXPECT_THROW(graph.replay(), CaptureError);
    EXPECT_THROW(graph.end_capture(), CaptureError);
  }
  EXPECT_EQ(fake::num_live(fake::Kind::kGraph), 0u);
}

TEST_F(GraphTest, ReplaysSeeFixedAddresses) {
  fake::set_param_sizes("probe", {8});
  const auto kernel = load_kernel("probe");
  Graph graph(kGpu);
  graph.begin_capture();
  const Array x = Array::empty({4}, DType::kFloat32, kGpu);
  launch_args(*kernel, {}, current_stream(kGpu), x.device_ptr());
  graph.end_capture();
  for (int i = 0; i < 3; ++i) {
    const Array noise = Array::empty({4 + i}, DType::kFloat32, kGpu);
    graph.replay();
  }
  for (const fake::Launch& launch : fake::launches()) {
    cu::DevicePtr seen = 0;
    std::memcpy(&seen, launch.args.at(0).data(), sizeof seen);
    EXPECT_EQ(seen, x.device_ptr());
  }
  EXPECT_EQ(fake::launches().size(), 3u);
}

TEST_F(GraphTest, SetLaunchParams) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  const Array y = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  launch_scale(*kernel, x, 3.0f);
  graph.end_capture();
  cu::DevicePtr ptr = y.device_ptr();
  float factor = 5.0f;
  int count = 4;
  void* params[] = {&ptr, &factor, &count};
  graph.set_launch_params(1, params);
  ptr = 0;  // was copied
  graph.replay();
  EXPECT_EQ(first_of(x), 2.0f);
  EXPECT_EQ(first_of(y), 5.0f);
  const auto error = thrown<InvalidArgument>([&] { graph.set_launch_params(2, params); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), InvalidArgument::Kind::kIndex);
  EXPECT_EQ(fake::launches()[1].block[0], 32u);  // the config is kept
}

TEST_F(GraphTest, SetLaunchParamsNeedsACapturedGraphAndANewDriver) {
  void* params[] = {nullptr};
  Graph empty(kGpu);
  EXPECT_THROW(empty.set_launch_params(0, params), CaptureError);
}

TEST_F(GraphTest, OldDriversCaptureButCannotSetParams) {
  static cu::DriverApi old;
  old = fake::api();
  old.cuStreamGetCaptureInfo = nullptr;
  use_driver(old);
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  graph.end_capture();
  graph.replay();
  EXPECT_EQ(first_of(x), 2.0f);
  void* params[] = {nullptr};
  EXPECT_CONTAINS(message_of<CaptureError>([&] { graph.set_launch_params(0, params); }),
                  "this driver cannot");
}

TEST_F(GraphTest, KernelsLiveAsLongAsTheGraph) {
  auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  kernel.reset();
  graph.end_capture();
  EXPECT_EQ(fake::num_live(fake::Kind::kModule), 1u);
  graph.replay();
  EXPECT_EQ(first_of(x), 2.0f);
  graph.reset();
  unload_dropped_modules();
  EXPECT_EQ(fake::num_live(fake::Kind::kModule), 0u);
}

TEST_F(GraphTest, KeepsWhatItIsGiven) {
  auto object = Buffer::allocate(kCpu, 16);
  const std::weak_ptr<Buffer> watch = object;
  Graph graph(kCpu);
  graph.begin_capture();
  graph.keep(object);
  object.reset();
  graph.record_host_call([] {});
  graph.end_capture();
  EXPECT_FALSE(watch.expired());
  graph.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_FALSE(graph.ready());
  EXPECT_EQ(graph.num_nodes(), 0u);
}

TEST_F(GraphTest, ReplaysRunOnTheStreamGivenOrTheCurrentOne) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  graph.end_capture();
  const auto given = Stream::create(kGpu, StreamPriority::kLow);
  const auto current = Stream::create(kGpu, StreamPriority::kLow);
  graph.replay(given);
  {
    const StreamScope scope(current);
    graph.replay();
  }
  ASSERT_EQ(fake::launches().size(), 2u);
  EXPECT_EQ(fake::launches()[0].stream, given->handle());
  EXPECT_EQ(fake::launches()[1].stream, current->handle());
  graph.synchronize();
  EXPECT_EQ(first_of(x), 4.0f);
}

TEST_F(GraphTest, AbandonLeavesAnEmptyGraph) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.abandon_capture();  // nothing to abandon
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  graph.abandon_capture();
  EXPECT_EQ(capturing_graph(), nullptr);
  EXPECT_EQ(current_stream(kGpu), Stream::default_for(kGpu));
  EXPECT_FALSE(graph.ready());
  EXPECT_FALSE(graph.stream()->capturing());
  EXPECT_TRUE(graph.launches().empty());
  EXPECT_EQ(fake::num_live(fake::Kind::kGraph), 0u);
  graph.begin_capture();  // and usable again
  launch_scale(*kernel, x, 3.0f);
  graph.end_capture();
  graph.replay();
  EXPECT_EQ(first_of(x), 3.0f);
}

TEST_F(GraphTest, GraphDestroyedWhileCapturing) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  {
    Graph graph(kGpu);
    graph.begin_capture();
    launch_scale(*kernel, x, 2.0f);
  }
  EXPECT_EQ(capturing_graph(), nullptr);
  EXPECT_EQ(current_stream(kGpu), Stream::default_for(kGpu));
}

TEST_F(GraphTest, InstantiationFailure) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  fake::fail_next("cuGraphInstantiateWithFlags", cu::kInvalidValue);
  EXPECT_THROW(graph.end_capture(), CudaError);
  EXPECT_FALSE(graph.ready());
  EXPECT_EQ(fake::num_live(fake::Kind::kGraph), 0u);
}

TEST_F(GraphTest, CapturingAgainReplacesTheOldGraph) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  for (const float factor : {2.0f, 5.0f}) {
    graph.begin_capture();
    launch_scale(*kernel, x, factor);
    graph.end_capture();
  }
  graph.replay();
  EXPECT_EQ(first_of(x), 5.0f);
  EXPECT_EQ(fake::num_live(fake::Kind::kGraphExec), 1u);
  EXPECT_EQ(graph.launches().size(), 1u);
}

}  // namespace
}  // namespace gpk
