// Gates of streams: windows, giving way to the foreground, pacing, captures, interrupts.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "core/array.h"
#include "core/interrupt.h"
#include "core/stream_tenant.h"
#include "device/compute_pacer.h"
#include "device/device_partition.h"
#include "fake_driver/graph_fixture.h"

namespace gpk {
namespace {

using namespace std::chrono_literals;
using runtime::QosClass;

class GateTest : public GraphTest {
 protected:
  ~GateTest() override { set_interrupt_hook(nullptr); }

  static std::shared_ptr<device::DevicePartition> make(const char* name, QosClass qos,
                                                       double compute = 0.0) {
    device::PartitionRequest request;
    request.name = name;
    request.qos = qos;
    request.compute = compute;
    return device::DevicePartition::create(kGpu, request);
  }
};

// The calling thread inside a partition.
class Inside {
 public:
  explicit Inside(const std::shared_ptr<device::DevicePartition>& partition)
      : scope_(partition), stream_(current_stream(kGpu)) {}
  Stream& stream() { return *stream_; }

 private:
  device::PartitionScope scope_;
  std::shared_ptr<Stream> stream_;
};

TEST_F(GateTest, StreamsOutsideOfPartitionsHaveNone) {
  const auto stream = Stream::create(kGpu, StreamPriority::kHigh);
  EXPECT_EQ(stream->gate(), nullptr);
  EXPECT_EQ(Stream::default_for(kGpu)->gate(), nullptr);
  EXPECT_EQ(Stream::default_for(kCpu)->gate(), nullptr);
}

TEST_F(GateTest, ALimitOfItsOwn) {
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  const auto kernel = load_scale();
  const Array x = make_ones();
  device::limit_launches(*stream, 2);
  const cu::Stream handle = stream->handle();
  const auto report = [&] {
    const auto reports = device::report_gates(kGpu);
    EXPECT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports.at(0).stream, stream->handle_value());
    return reports.at(0).stats;
  };
  fake::set_busy(handle, true);
  std::thread ends;
  {
    const StreamScope scope(stream);
    launch_scale(*kernel, x, 1.0f);
    launch_scale(*kernel, x, 1.0f);
    EXPECT_EQ(report().num_passed, 2u);
    EXPECT_EQ(report().window.num_in_flight, 2u);
    EXPECT_EQ(report().window.limit, 2u);
    std::atomic<bool> finished{false};
    ends = std::thread([&] {
      std::this_thread::sleep_for(50ms);
      finished = true;
      fake::set_busy(handle, false);
    });
    launch_scale(*kernel, x, 1.0f);
    EXPECT_TRUE(finished) << "the third waits for the first";
    ends.join();
  }
  EXPECT_EQ(report().window.num_waits, 1u);
  EXPECT_EQ(report().window.num_in_flight, 0u) << "what has ended does not count";
  device::limit_launches(*stream, 0);
  EXPECT_EQ(report().window.limit, device::kMaxLaunchLimit);
  stream->synchronize();
}

TEST_F(GateTest, LimitsAreForStreamsOfNoPartition) {
  EXPECT_THROW(device::limit_launches(*Stream::default_for(kGpu), 1), InvalidArgument);
  device::limit_launches(*Stream::default_for(kCpu), 1);
  EXPECT_EQ(Stream::default_for(kCpu)->gate(), nullptr);
  const auto partition = make("be", QosClass::kBestEffort);
  Inside inside(partition);
  EXPECT_THROW(device::limit_launches(inside.stream(), 1), InvalidArgument);
}

TEST_F(GateTest, AFullWindowWaitsForTheOldestLaunch) {
  const auto partition = make("be", QosClass::kBestEffort);
  Inside inside(partition);
  const auto kernel = load_scale();
  const Array x = make_ones();
  inside.stream().synchronize();
  fake::set_busy(inside.stream().handle(), true);
  const cu::Stream handle = inside.stream().handle();
  std::atomic<bool> finished{false};
  std::thread ends([&] {
    std::this_thread::sleep_for(100ms);
    finished = true;
    fake::set_busy(handle, false);
  });
  launch_scale(*kernel, x, 1.0f);
  launch_scale(*kernel, x, 1.0f);
  EXPECT_TRUE(finished) << "one at a time until it is known how long the work is";
  ends.join();
  const auto stats = partition->report().gate;
  EXPECT_GE(stats.window.num_waits, 1u);
  EXPECT_EQ(stats.window.max_in_flight, 1u);
  EXPECT_EQ(stats.num_passed, 3u);  // the copy of make_ones() is one
}

// Launches that find room say nothing about how long the work is: after long work the window stays
// small, however fast launches follow one another when it is empty.
TEST_F(GateTest, RoomInTheWindowDoesNotWidenIt) {
  const auto partition = make("be", QosClass::kBestEffort);
  Inside inside(partition);
  const auto kernel = load_scale();
  const Array x = make_ones();
  for (int round = 0; round < 3; ++round) {
    inside.stream().synchronize();
    const cu::Stream handle = inside.stream().handle();
    fake::set_busy(handle, true);
    std::thread ends([handle] {
      std::this_thread::sleep_for(3ms);
      fake::set_busy(handle, false);
    });
    launch_scale(*kernel, x, 1.0f);  // finds room
    launch_scale(*kernel, x, 1.0f);  // waits for it
    ends.join();
    EXPECT_EQ(partition->report().gate.window.max_in_flight, 1u) << "round " << round;
  }
}

TEST_F(GateTest, BestEffortGivesWayToTheForeground) {
  const auto front = make("front", QosClass::kGuaranteed);
  const auto back = make("back", QosClass::kBestEffort);
  const auto kernel = load_scale();
  std::atomic<bool> launched{false};
  cu::Stream foreground = nullptr;
  {
    Inside inside(back);  // from here on the foreground marks its work
    Inside inner(front);
    foreground = inner.stream().handle();
    const Array x = make_ones();
    fake::set_busy(foreground, true);
    launch_scale(*kernel, x, 2.0f);
  }
  std::thread background([&] {
    Inside inside(back);
    launch_scale(*kernel, make_ones(), 3.0f);
    launched = true;
  });
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(launched);
  fake::set_busy(foreground, false);
  background.join();
  EXPECT_TRUE(launched);
  const auto stats = back->report().gate;
  EXPECT_GE(stats.num_held, 1u);
  EXPECT_GT(stats.held_ns, 0);
  EXPECT_EQ(front->report().gate.num_held, 0u);
}

TEST_F(GateTest, BestEffortIsNotHeldForEver) {
  const auto front = make("front", QosClass::kBurstable);
  const auto back = make("back", QosClass::kBestEffort);
  const auto kernel = load_scale();
  Inside outer(back);
  const Array y = make_ones();
  Inside inner(front);
  const Array x = make_ones();
  fake::set_busy(inner.stream().handle(), true);
  launch_scale(*kernel, x, 2.0f);
  const auto start = std::chrono::steady_clock::now();
  launch_args(*kernel, {.block = {32, 1, 1}}, outer.stream().shared_from_this(), y.device_ptr(),
              1.0f, 4);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
  fake::set_busy(inner.stream().handle(), false);
}

TEST_F(GateTest, GraphsAndCopiesPassTooCapturesDoNot) {
  const auto partition = make("be", QosClass::kBestEffort);
  const auto kernel = load_scale();
  Inside inside(partition);
  const Array x = make_ones();
  const auto passed = [&] { return partition->report().gate.num_passed; };
  EXPECT_EQ(passed(), 1u);
  Graph graph(kGpu);
  graph.begin_capture();
  for (int i = 0; i < 5; ++i) launch_scale(*kernel, x, 2.0f);
  graph.end_capture();
  EXPECT_EQ(passed(), 1u) << "recorded, not run";
  graph.replay();
  EXPECT_EQ(passed(), 2u);
  EXPECT_EQ(first_of(x), 32.0f);
  EXPECT_EQ(passed(), 3u);
  copy(make_ones(), x, "copy");
  EXPECT_EQ(passed(), 5u);
}

TEST_F(GateTest, AGatedStreamInsideACaptureIsNotGated) {
  const auto partition = make("be", QosClass::kBestEffort);
  const auto kernel = load_scale();
  Inside inside(partition);
  const Array x = make_ones();
  const auto before = partition->report().gate.num_passed;
  Graph graph(kGpu);
  graph.begin_capture();
  inside.stream().wait(*graph.stream());  // joins the capture
  launch_args(*kernel, {.block = {32, 1, 1}}, inside.stream().shared_from_this(), x.device_ptr(),
              2.0f, 4);
  graph.stream()->wait(inside.stream());
  graph.end_capture();
  EXPECT_EQ(partition->report().gate.num_passed, before);
  EXPECT_EQ(graph.num_nodes(), 1u);
}

TEST_F(GateTest, AFailedLaunchLeavesTheWindow) {
  const auto partition = make("be", QosClass::kBestEffort);
  const auto kernel = load_scale();
  Inside inside(partition);
  const Array x = make_ones();
  for (int i = 0; i < 20; ++i) {
    fake::fail_next("cuLaunchKernel", cu::kLaunchOutOfResources);
    EXPECT_THROW(launch_scale(*kernel, x, 2.0f), CudaError);
  }
  launch_scale(*kernel, x, 2.0f);
  EXPECT_EQ(first_of(x), 2.0f);
}

struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_F(GateTest, WaitsCanBeInterrupted) {
  const auto partition = make("be", QosClass::kBestEffort);
  const auto kernel = load_scale();
  Inside inside(partition);
  const Array x = make_ones();
  fake::set_busy(inside.stream().handle(), true);
  launch_scale(*kernel, x, 1.0f);
  set_interrupt_hook([] { throw Interrupted("stop"); });
  const std::size_t launches = fake::launches().size();
  EXPECT_THROW(launch_scale(*kernel, x, 1.0f), Interrupted);
  EXPECT_EQ(fake::launches().size(), launches) << "nothing was submitted";
  set_interrupt_hook(nullptr);
  fake::set_busy(inside.stream().handle(), false);
  launch_scale(*kernel, x, 5.0f);
  EXPECT_EQ(first_of(x), 5.0f);
}

TEST_F(GateTest, PacingChargesMeasuredTime) {
  fake::set_driver_version(12030);  // no green contexts
  cu::DriverApi old = fake::api();
  old.cuGreenCtxCreate = nullptr;
  use_driver(old);
  expect_leftovers();  // the pool of the contexts made with it
  {
    const auto partition = make("paced", QosClass::kGuaranteed, 0.5);
    const auto kernel = load_scale();
    {
      Inside inside(partition);
      const Array x = make_ones();
      for (int i = 0; i < 10; ++i) launch_scale(*kernel, x, 1.0f);
    }
    const device::PartitionReport report = partition->report();
    EXPECT_EQ(report.compute, device::ComputeLimit::kPacing);
    EXPECT_CONTAINS(report.compute_note, "no green contexts");
    EXPECT_GE(report.paced_ns, 11 * 1000.0);  // the fake's clock: a microsecond per submission
    EXPECT_EQ(report.given_compute, 0.5);
  }
  use_driver(fake::api());
}

TEST_F(GateTest, PacedWorkWaitsForItsShare) {
  const SteadyClock clock;
  device::ComputePacer pacer(Context::get(0), clock);
  pacer.shares().add(1, 0.1, true);
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  const auto start = std::chrono::steady_clock::now();
  // 0.2 ms of fake GPU time each against a share of 0.1: when the half millisecond of credit is
  // used up, 2 ms of real time each.
  for (int i = 0; i < 8; ++i) {
    const device::ComputePacer::Piece piece = pacer.begin(1, stream->handle());
    fake::advance_ms(0.2);
    pacer.submitted(piece, stream->handle());
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, 4ms);
  pacer.retire();
  EXPECT_NEAR(pacer.shares().stats(1).used, 8 * 0.201e6, 1e4);
  pacer.abandon(pacer.begin(1, stream->handle()));
  EXPECT_EQ(pacer.shares().stats(1).num_in_flight, 0u);
  pacer.shares().remove(1);
  EXPECT_EQ(pacer.begin(1, stream->handle()).start, 0u) << "who has left is not paced";
}

TEST_F(GateTest, ThreadsShareAWindow) {
  const auto partition = make("be", QosClass::kBestEffort);
  const auto kernel = load_scale();
  const auto stream = partition->acquire_stream();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const StreamScope scope(stream);
      const Array x = make_ones();
      for (int i = 0; i < 100; ++i) launch_scale(*kernel, x, 1.0f);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(partition->report().gate.num_passed, 404u);
  EXPECT_EQ(partition->report().gate.window.num_launches, 404u);
  partition->release_stream(stream);
}

}  // namespace
}  // namespace gpk
