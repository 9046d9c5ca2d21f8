// Streams, events, capture and graphs of the simulated driver.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "sim_driver_fixture.h"

namespace gpk {
namespace {

class SimStreamTest : public SimDriverTest {
 protected:
  cu::Event make_event(unsigned flags = 0) {
    cu::Event event = nullptr;
    EXPECT_EQ(cu.cuEventCreate(&event, flags), cu::kSuccess);
    return event;
  }
  // Work that takes a while: a fill of many pages.
  void keep_busy(cu::Stream stream, cu::DevicePtr memory, std::size_t bytes) {
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(cu.cuMemsetD8Async(memory, 1, bytes, stream), cu::kSuccess);
  }
};

TEST_F(SimStreamTest, WorkRunsBehindTheCaller) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const cu::Stream stream = make_stream();
  const cu::DevicePtr memory = allocate(kBytes);
  keep_busy(stream, memory, kBytes);
  EXPECT_EQ(cu.cuStreamQuery(stream), cu::kNotReady);
  EXPECT_EQ(cu.cuStreamSynchronize(stream), cu::kSuccess);
  EXPECT_EQ(cu.cuStreamQuery(stream), cu::kSuccess);
  cu.cuMemFree(memory);
  cu.cuStreamDestroy(stream);
}

TEST_F(SimStreamTest, EventsOrderStreamsAndMeasureTime) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const cu::Function scale = load_scale();
  const cu::Stream first = make_stream();
  const cu::Stream second = make_stream();
  const cu::DevicePtr large = allocate(kBytes);
  const cu::DevicePtr x = upload(std::vector<float>(64, 1.0F));
  const cu::Event start = make_event();
  const cu::Event stop = make_event();
  float ms = -1.0F;
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, stop), cu::kInvalidHandle);  // never recorded
  EXPECT_EQ(cu.cuEventQuery(stop), cu::kSuccess);
  EXPECT_EQ(cu.cuEventRecord(start, first), cu::kSuccess);
  keep_busy(first, large, kBytes);
  EXPECT_EQ(cu.cuMemsetD32Async(x, 0x40400000, 64, first), cu::kSuccess);  // 3.0
  EXPECT_EQ(cu.cuEventRecord(stop, first), cu::kSuccess);
  EXPECT_EQ(cu.cuStreamWaitEvent(second, stop, 0), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, x, 2.0F, 64, second), cu::kSuccess);
  EXPECT_EQ(download(x, 64, second), std::vector<float>(64, 6.0F));
  EXPECT_EQ(cu.cuEventSynchronize(stop), cu::kSuccess);
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, stop), cu::kSuccess);
  EXPECT_GT(ms, 0.0F);
  for (const cu::Event event : {start, stop}) EXPECT_EQ(cu.cuEventDestroy(event), cu::kSuccess);
  for (const cu::Stream stream : {first, second}) cu.cuStreamDestroy(stream);
  cu.cuMemFree(large);
  cu.cuMemFree(x);
}

TEST_F(SimStreamTest, TheLegacyStreamWaitsForBlockingStreams) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const cu::Function scale = load_scale();
  const cu::Stream blocking = make_stream(0);
  const cu::DevicePtr large = allocate(kBytes);
  const cu::DevicePtr x = upload(std::vector<float>(64, 1.0F));
  keep_busy(blocking, large, kBytes);
  EXPECT_EQ(cu.cuMemsetD32Async(x, 0x40400000, 64, blocking), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, x, 2.0F, 64, nullptr), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, x, 10.0F, 64, blocking), cu::kSuccess);
  EXPECT_EQ(download(x, 64, blocking), std::vector<float>(64, 60.0F));
  cu.cuStreamDestroy(blocking);
  cu.cuMemFree(large);
  cu.cuMemFree(x);
}

TEST_F(SimStreamTest, ADestroyedStreamFinishesItsWork) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const cu::Stream stream = make_stream();
  const cu::Event done = make_event();
  const cu::DevicePtr memory = allocate(kBytes);
  keep_busy(stream, memory, kBytes);
  EXPECT_EQ(cu.cuEventRecord(done, stream), cu::kSuccess);
  EXPECT_EQ(cu.cuStreamDestroy(stream), cu::kSuccess);
  EXPECT_EQ(cu.cuStreamQuery(stream), cu::kInvalidHandle);
  EXPECT_EQ(cu.cuEventSynchronize(done), cu::kSuccess);
  cu.cuEventDestroy(done);
  cu.cuMemFree(memory);
}

TEST_F(SimStreamTest, AGraphReplaysWhatWasCaptured) {
  const cu::Function scale = load_scale();
  const cu::Stream stream = make_stream();
  const cu::DevicePtr x = upload(std::vector<float>(64, 1.0F));
  ASSERT_EQ(cu.cuStreamBeginCapture(stream, cu::kCaptureModeThreadLocal), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, x, 2.0F, 64, stream), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, x, 3.0F, 64, stream), cu::kSuccess);
  cu::Graph graph = nullptr;
  ASSERT_EQ(cu.cuStreamEndCapture(stream, &graph), cu::kSuccess);
  EXPECT_EQ(download(x, 64), std::vector<float>(64, 1.0F));  // nothing ran

  std::size_t num_nodes = 2;
  cu::GraphNode nodes[2] = {};
  EXPECT_EQ(cu.cuGraphGetNodes(graph, nodes, &num_nodes), cu::kSuccess);
  ASSERT_EQ(num_nodes, 2u);
  cu::GraphExec exec = nullptr;
  ASSERT_EQ(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), cu::kSuccess);
  EXPECT_EQ(cu.cuGraphDestroy(graph), cu::kSuccess);
  EXPECT_EQ(cu.cuGraphLaunch(exec, stream), cu::kSuccess);
  EXPECT_EQ(cu.cuGraphLaunch(exec, stream), cu::kSuccess);
  EXPECT_EQ(download(x, 64, stream), std::vector<float>(64, 36.0F));

  cu::DevicePtr target = x;
  float factor = 0.5F;
  int n = 64;
  void* values[] = {&target, &factor, &n};
  cu::KernelNodeParams params{};
  params.function = scale;
  params.grid[0] = params.grid[1] = params.grid[2] = 1;
  params.block[0] = 64;
  params.block[1] = params.block[2] = 1;
  params.params = values;
  EXPECT_EQ(cu.cuGraphExecKernelNodeSetParams(exec, nodes[0], &params), cu::kSuccess);
  EXPECT_EQ(cu.cuGraphLaunch(exec, stream), cu::kSuccess);
  EXPECT_EQ(download(x, 64, stream), std::vector<float>(64, 54.0F));
  EXPECT_EQ(cu.cuGraphExecDestroy(exec), cu::kSuccess);
  cu.cuStreamDestroy(stream);
  cu.cuMemFree(x);
}

TEST_F(SimStreamTest, WhatACaptureCannotHoldBreaksIt) {
  const cu::Stream stream = make_stream();
  ASSERT_EQ(cu.cuStreamBeginCapture(stream, cu::kCaptureModeThreadLocal), cu::kSuccess);
  cu::DevicePtr ptr = 0;
  EXPECT_EQ(cu.cuMemAlloc(&ptr, 16), cu::kStreamCaptureUnsupported);
  cu::Graph graph = nullptr;
  EXPECT_EQ(cu.cuStreamEndCapture(stream, &graph), cu::kStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  cu.cuStreamDestroy(stream);
}

TEST_F(SimStreamTest, ManyThreadsUseOneDevice) {
  const cu::Function scale = load_scale();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      ASSERT_EQ(cu.cuCtxSetCurrent(context), cu::kSuccess);
      const cu::Stream stream = make_stream();
      for (int i = 0; i < 20; ++i) {
        const cu::DevicePtr x = upload(std::vector<float>(64, static_cast<float>(t)));
        EXPECT_EQ(launch_scale(scale, x, 2.0F, 64, stream), cu::kSuccess);
        EXPECT_EQ(download(x, 64, stream), std::vector<float>(64, 2.0F * static_cast<float>(t)));
        EXPECT_EQ(cu.cuMemFree(x), cu::kSuccess);
      }
      cu.cuStreamDestroy(stream);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SimStreamTest, AForkedChildRunsKernels) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a child of several threads may not start one under the thread sanitizer";
#endif
  const cu::Function scale = load_scale();
  const cu::DevicePtr x = upload(std::vector<float>(64, 1.0F));
  EXPECT_EQ(launch_scale(scale, x, 2.0F, 64), cu::kSuccess);  // its thread stays with the parent
  EXPECT_EQ(cu.cuCtxSynchronize(), cu::kSuccess);
  const pid_t child = fork();
  if (child == 0) {
    const bool good = launch_scale(scale, x, 2.0F, 64) == cu::kSuccess &&
                      cu.cuCtxSynchronize() == cu::kSuccess && download(x, 1)[0] == 4.0F;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  cu.cuMemFree(x);
}

}  // namespace
}  // namespace gpk
