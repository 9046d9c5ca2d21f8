// Kernels in the trace: named, with their time on the GPU, and nothing at all while it is off.
#include "core/kernel_trace.h"

#include <sstream>
#include <string>

#include "base/error.h"
#include "core/trace_log.h"
#include "fake_driver/graph_fixture.h"

namespace gpk {
namespace {

class KernelTraceTest : public GraphTest {
 protected:
  KernelTraceTest() { trace_log().clear(); }
  ~KernelTraceTest() override {
    stop_trace();
    trace_log().clear();
  }
  static std::string text() {
    std::ostringstream out;
    trace_log().write_chrome_trace(out);
    return out.str();
  }
  static int count(const std::string& part) {
    const std::string all = text();
    int num = 0;
    for (auto at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++num;
    return num;
  }
};

TEST_F(KernelTraceTest, LaunchesAreNamedAndTimed) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  start_trace();
  launch_scale(*kernel, x, 2.0f);
  launch_scale(*kernel, x, 2.0f);
  stop_trace();
  launch_scale(*kernel, x, 2.0f);
  EXPECT_EQ(count("\"scale\""), 2) << text();
  EXPECT_EQ(count("\"kernel\""), 2) << text();
  EXPECT_EQ(count("\"dur\":2.000,"), 2) << text();  // ticks of the fake driver
  EXPECT_EQ(count("\"threads\":32"), 2) << text();
  EXPECT_EQ(count("kernels of cuda:0, stream 1"), 1) << text();
  EXPECT_EQ(fake::num_live(fake::Kind::kEvent), 0u);
}

TEST_F(KernelTraceTest, TimesAreThoseOfTheGpu) {
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  start_trace();
  const std::int64_t begin_ns = trace_log().now_ns();
  for (const double ms : {0.25, 2000.0, 0.5}) {  // the second moves the anchor
    TracedKernel traced("long", nullptr, nullptr, *stream);
    fake::advance_ms(ms);
    traced.submitted();
    fake::advance_ms(1.0);
  }
  stop_trace();
  EXPECT_LT(trace_log().now_ns() - begin_ns, 1'000'000'000) << "the host's clock plays no part";
  EXPECT_EQ(count("\"dur\":251.000,"), 1) << text();
  EXPECT_EQ(count("\"dur\":200000"), 1) << text();
  EXPECT_EQ(count("\"dur\":501.000,"), 1) << text();
  // Each starts where the one before ended, and the millisecond between them.
  EXPECT_EQ(count("\"ts\":0.000,"), 1) << text();
  EXPECT_EQ(count("\"ts\":1252.000,"), 1) << text();
  EXPECT_EQ(count("\"ts\":2002254."), 1) << text();
}

TEST_F(KernelTraceTest, OffCostsNoEvent) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  const std::size_t before = fake::num_calls("cuEventRecord");
  launch_scale(*kernel, x, 2.0f);
  EXPECT_EQ(fake::num_calls("cuEventRecord"), before);
  EXPECT_EQ(count("\"scale\""), 0);
}

TEST_F(KernelTraceTest, EachStreamHasARow) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  start_trace();
  for (int i = 0; i < 2; ++i) {
    const StreamScope scope(Stream::create(kGpu, StreamPriority::kLow));
    launch_scale(*kernel, x, 2.0f);
    current_stream(kGpu)->synchronize();
  }
  launch_scale(*kernel, x, 2.0f);
  stop_trace();
  EXPECT_EQ(count("\"scale\""), 3);
  EXPECT_GE(count("kernels of cuda:0, stream"), 2);
}

TEST_F(KernelTraceTest, WhatIsNotDoneIsNotThereYet) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  start_trace();
  {
    const StreamScope scope(stream);
    fake::set_busy(stream->handle(), true);
    launch_scale(*kernel, x, 2.0f);
  }
  collect_kernel_trace();
  EXPECT_EQ(count("\"scale\""), 0);
  fake::set_busy(stream->handle(), false);
  collect_kernel_trace();
  EXPECT_EQ(count("\"scale\""), 1);
}

TEST_F(KernelTraceTest, ManyLaunchesDoNotPileUp) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  start_trace();
  for (int i = 0; i < 2000; ++i) launch_scale(*kernel, x, 1.0f);
  EXPECT_LT(fake::num_live(fake::Kind::kEvent), 1200u);
  stop_trace();
  EXPECT_EQ(count("\"scale\""), 2000);
}

TEST_F(KernelTraceTest, ACaptureIsLeftAloneAndAReplayIsOne) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  start_trace();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  graph.end_capture();
  EXPECT_EQ(first_of(x), 1.0f);
  graph.replay();
  EXPECT_EQ(first_of(x), 2.0f);
  stop_trace();
  EXPECT_EQ(count("\"scale\""), 0);
  EXPECT_EQ(count("\"graph\""), 1);
}

TEST_F(KernelTraceTest, ALaunchThatFailsIsNotThere) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  start_trace();
  fake::fail_next("cuLaunchKernel", cu::kInvalidValue);
  EXPECT_THROW(launch_scale(*kernel, x, 2.0f), CudaError);
  launch_scale(*kernel, x, 2.0f);
  EXPECT_EQ(first_of(x), 2.0f);
  stop_trace();
  EXPECT_EQ(count("\"scale\""), 1);
}

TEST_F(KernelTraceTest, AnEventThatFailsLeavesTheLaunchAlone) {
  const auto kernel = load_scale();
  const Array x = make_ones();
  start_trace();
  launch_scale(*kernel, x, 2.0f);
  fake::fail_next("cuEventRecord", cu::kInvalidValue);
  launch_scale(*kernel, x, 2.0f);
  EXPECT_EQ(first_of(x), 4.0f);
  stop_trace();
  EXPECT_EQ(count("\"scale\""), 1);
}

}  // namespace
}  // namespace gpk
