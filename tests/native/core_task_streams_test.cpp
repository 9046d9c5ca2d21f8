// Streams of tasks, and when a task has ended: when all it has submitted has, on every stream.
#include "device/task_streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/device_partition.h"
#include "device/transfers.h"
#include "fake_driver/graph_fixture.h"

namespace gpk {
namespace {

using namespace std::chrono_literals;

using runtime::QosClass;

constexpr std::optional<QosClass> kNoClass;

class TaskStreamsTest : public GraphTest {
 protected:
  // A task on the fake GPU: what `body` submits is in flight while the streams it names are busy.
  struct Task {
    std::future<std::exception_ptr> end;
    bool over() { return end.wait_for(5ms) == std::future_status::ready; }
  };
  template <class Body>
  static Task run(device::TaskStreams& streams, device::TaskStreams::Lease lease,
                  const Body& body) {
    TaskWork work;
    {
      const StreamScope stream(lease.stream);
      const TaskWork::Scope scope(&work);
      body();
    }
    auto promise = std::make_shared<std::promise<std::exception_ptr>>();
    Task task{promise->get_future()};
    streams.finish(std::move(lease), std::move(work),
                   [promise](std::exception_ptr error) { promise->set_value(std::move(error)); });
    return task;
  }
};

TEST_F(TaskStreamsTest, WorkOnTheCpuIsDoneAtOnce) {
  device::TaskStreams streams(kCpu, 2);
  auto lease = streams.acquire(kNoClass);
  EXPECT_EQ(streams.num_in_use(), 1u);
  bool done = false;
  streams.finish(std::move(lease), {}, [&](const std::exception_ptr& error) {
    EXPECT_EQ(error, nullptr);
    EXPECT_EQ(streams.num_in_use(), 0u);
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST_F(TaskStreamsTest, WorkIsDoneWhenTheEventIs) {
  device::TaskStreams streams(kGpu, 2);
  auto lease = streams.acquire(QosClass::kGuaranteed);
  const cu::Stream handle = lease.stream->handle();
  fake::set_busy(handle, true);
  std::promise<void> promise;
  std::future<void> done = promise.get_future();
  streams.finish(std::move(lease), {}, [&](const std::exception_ptr&) { promise.set_value(); });
  EXPECT_EQ(done.wait_for(5ms), std::future_status::timeout);
  EXPECT_EQ(streams.num_in_use(), 1u);
  fake::set_busy(handle, false);
  ASSERT_EQ(done.wait_for(10s), std::future_status::ready);
  auto again = streams.acquire(QosClass::kGuaranteed);
  EXPECT_EQ(again.stream->handle(), handle);  // used again
  streams.finish(std::move(again), {}, [](const std::exception_ptr&) {});
}

TEST_F(TaskStreamsTest, AFailureIsReportedAndItsStreamNotUsedAgain) {
  device::TaskStreams streams(kGpu, 1);
  auto lease = streams.acquire(kNoClass);
  fake::set_busy(lease.stream->handle(), true);
  std::promise<std::exception_ptr> promise;
  auto failure = promise.get_future();
  fake::fail_next("cuEventQuery", 1);
  streams.finish(std::move(lease), {}, [&](std::exception_ptr error) { promise.set_value(error); });
  EXPECT_THROW(std::rethrow_exception(failure.get()), CudaError);
  auto next = streams.acquire(kNoClass);
  EXPECT_NE(next.stream, nullptr);
  fake::fail_next("cuEventRecord", 1);
  std::exception_ptr at_once;
  streams.finish(std::move(next), {}, [&](std::exception_ptr error) { at_once = error; });
  EXPECT_THROW(std::rethrow_exception(at_once), CudaError);
  EXPECT_EQ(streams.num_in_use(), 0u);
}

TEST_F(TaskStreamsTest, AStreamThatCannotBeMadeLeavesItsPlace) {
  device::TaskStreams streams(kGpu, 1);
  fake::fail_next("cuStreamCreateWithPriority", cu::kOutOfMemory);
  EXPECT_ANY_THROW(streams.acquire(kNoClass));
  EXPECT_EQ(streams.num_in_use(), 0u);
  auto lease = streams.acquire(kNoClass);
  streams.finish(std::move(lease), {}, [](const std::exception_ptr&) {});
  EXPECT_THROW(device::TaskStreams(kGpu, 0), InvalidArgument);
}

TEST_F(TaskStreamsTest, AcquireWaitsForAFreeStreamAndEndsWithClose) {
  device::TaskStreams streams(kCpu, 1);
  auto only = streams.acquire(kNoClass);
  auto second = std::async(std::launch::async, [&] { return streams.acquire(kNoClass); });
  EXPECT_EQ(second.wait_for(5ms), std::future_status::timeout);
  streams.finish(std::move(only), {}, [](const std::exception_ptr&) {});
  auto got = second.get();
  ASSERT_NE(got.stream, nullptr);
  auto third = std::async(std::launch::async, [&] { return streams.acquire(kNoClass); });
  EXPECT_EQ(third.wait_for(5ms), std::future_status::timeout);
  streams.close();
  EXPECT_EQ(third.get().stream, nullptr);
  streams.finish(std::move(got), {}, [](const std::exception_ptr&) {});
}

TEST_F(TaskStreamsTest, ManyThreads) {
  std::atomic<int> num_done = 0;
  {
    device::TaskStreams streams(kGpu, 4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          auto lease =
              i % 2 == 0 ? streams.acquire(kNoClass) : streams.acquire(QosClass::kGuaranteed);
          EXPECT_LE(streams.num_in_use(), 4u);
          streams.finish(std::move(lease), {}, [&](const std::exception_ptr&) { ++num_done; });
        }
      });
    for (std::thread& thread : threads) thread.join();
    while (num_done < 300) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(streams.num_in_use(), 0u);
  }
  EXPECT_EQ(fake::num_live(fake::Kind::kEvent), 0u);
}

TEST_F(TaskStreamsTest, TheLastOwnerMayGoInACallback) {
  auto streams = std::make_shared<device::TaskStreams>(kGpu, 2);
  auto lease = streams->acquire(kNoClass);
  const cu::Stream handle = lease.stream->handle();
  fake::set_busy(handle, true);
  std::promise<void> promise;
  auto gone = promise.get_future();
  std::shared_ptr<device::TaskStreams> last = streams;
  device::TaskStreams& used = *streams;
  used.finish(std::move(lease), {}, [last = std::move(last), &promise](const std::exception_ptr&) {
    promise.set_value();
  });
  streams.reset();
  fake::set_busy(handle, false);
  ASSERT_EQ(gone.wait_for(10s), std::future_status::ready);
  while (fake::num_live(fake::Kind::kStream) > 0) std::this_thread::sleep_for(1ms);
}

TEST_F(TaskStreamsTest, ATaskEndsWithItsLastStream) {
  device::TaskStreams streams(kGpu, 2);
  const auto kernel = load_scale();
  const Array x = make_ones();
  const auto side = Stream::create(kGpu, StreamPriority::kLow);
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    launch_scale(*kernel, x, 2.0f);
    const StreamScope inner(side);
    launch_scale(*kernel, x, 3.0f);
    fake::set_busy(side->handle(), true);
  });
  EXPECT_FALSE(task.over());
  EXPECT_EQ(streams.num_in_use(), 1u);
  fake::set_busy(side->handle(), false);
  EXPECT_EQ(task.end.get(), nullptr);
  EXPECT_EQ(streams.num_in_use(), 0u);
}

TEST_F(TaskStreamsTest, AStreamThatTheTaskDropsIsKept) {
  device::TaskStreams streams(kGpu, 2);
  const auto kernel = load_scale();
  const Array x = make_ones();
  cu::Stream handle = nullptr;
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    const auto side = Stream::create(kGpu, StreamPriority::kLow);
    handle = side->handle();
    launch_args(*kernel, {.block = {32, 1, 1}}, side, x.device_ptr(), 2.0f, 4);
    fake::set_busy(handle, true);
  });
  EXPECT_FALSE(task.over());
  fake::set_busy(handle, false);
  EXPECT_EQ(task.end.get(), nullptr);
}

TEST_F(TaskStreamsTest, ManyShortStreamsAreNotAllKept) {
  device::TaskStreams streams(kGpu, 2);
  const auto kernel = load_scale();
  const Array x = make_ones();
  std::size_t most = 0;
  const std::size_t before = fake::num_live(fake::Kind::kStream);
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    for (int i = 0; i < 200; ++i) {
      const StreamScope inner(Stream::create(kGpu, StreamPriority::kLow));
      launch_scale(*kernel, x, 1.0f);
      most = std::max(most, fake::num_live(fake::Kind::kStream) - before);
    }
  });
  EXPECT_EQ(task.end.get(), nullptr);
  EXPECT_LE(most, 40u);
}

TEST_F(TaskStreamsTest, ReplaysAndCopiesCount) {
  device::TaskStreams streams(kGpu, 2);
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  graph.begin_capture();
  launch_scale(*kernel, x, 2.0f);
  graph.end_capture();
  const auto replays = Stream::create(kGpu, StreamPriority::kLow);
  const auto copies = Stream::create(kGpu, StreamPriority::kLow);
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    graph.replay(replays);
    fake::set_busy(replays->handle(), true);
    copy_on_device(x.device_ptr(), x.device_ptr(), 4, *copies);
    fake::set_busy(copies->handle(), true);
  });
  EXPECT_FALSE(task.over());
  fake::set_busy(replays->handle(), false);
  EXPECT_FALSE(task.over());
  fake::set_busy(copies->handle(), false);
  EXPECT_EQ(task.end.get(), nullptr);
}

TEST_F(TaskStreamsTest, ACaptureIsNoWork) {
  device::TaskStreams streams(kGpu, 2);
  const auto kernel = load_scale();
  const Array x = make_ones();
  Graph graph(kGpu);
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    graph.begin_capture();
    launch_scale(*kernel, x, 2.0f);
    graph.end_capture();
  });
  EXPECT_EQ(task.end.get(), nullptr);
  EXPECT_EQ(first_of(x), 1.0f);
}

TEST_F(TaskStreamsTest, AFreedArrayInUseKeepsTheTaskRunning) {
  device::TaskStreams streams(kGpu, 2);
  const auto kernel = load_scale();
  const auto side = Stream::create(kGpu, StreamPriority::kLow);
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    const Array x = make_ones();
    const StreamScope inner(side);
    launch_scale(*kernel, x, 2.0f);
    fake::set_busy(side->handle(), true);
  });
  EXPECT_FALSE(task.over());
  fake::set_busy(side->handle(), false);
  EXPECT_EQ(task.end.get(), nullptr);
}

TEST_F(TaskStreamsTest, TransfersCount) {
  device::TaskStreams streams(kGpu, 2);
  const std::vector<unsigned char> source(2 << 20, 7);
  const Array x = Array::empty({2 << 20}, DType::kUInt8, kGpu);
  const auto before = Stream::create(kGpu, StreamPriority::kLow);
  fake::set_busy(before->handle(), true);  // the copy starts after its work
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    device::transfers(kGpu)->submit(runtime::TransferType::kH2D, x.device_ptr(),
                                    reinterpret_cast<std::uintptr_t>(source.data()), source.size(),
                                    before);
  });
  EXPECT_FALSE(task.over());
  fake::set_busy(before->handle(), false);
  EXPECT_EQ(task.end.get(), nullptr);
  EXPECT_EQ(device::transfers(kGpu)->engine().stats().of(runtime::TransferType::kH2D).num_completed,
            1u);
}

TEST_F(TaskStreamsTest, TheFirstFailureIsReportedWhenAllHaveEnded) {
  device::TaskStreams streams(kGpu, 1);
  const auto kernel = load_scale();
  const Array x = make_ones();
  const auto side = Stream::create(kGpu, StreamPriority::kLow);
  cu::Stream own = nullptr;
  fake::fail_next("cuEventRecord", 1);  // of the task's own stream, which comes first
  Task task = run(streams, streams.acquire(kNoClass), [&] {
    own = current_stream(kGpu)->handle();
    const StreamScope inner(side);
    launch_scale(*kernel, x, 3.0f);
    fake::set_busy(side->handle(), true);
  });
  EXPECT_FALSE(task.over());
  fake::set_busy(side->handle(), false);
  EXPECT_THROW(std::rethrow_exception(task.end.get()), CudaError);
  auto next = streams.acquire(kNoClass);
  EXPECT_NE(next.stream->handle(), own);  // it is not used again
  streams.finish(std::move(next), {}, [](const std::exception_ptr&) {});
}

TEST_F(TaskStreamsTest, OutsideOfTasksNothingIsNoted) {
  EXPECT_EQ(TaskWork::current(), nullptr);
  TaskWork outer;
  const TaskWork::Scope scope(&outer);
  {
    TaskWork inner;
    const TaskWork::Scope nested(&inner);
    make_ones();
    EXPECT_EQ(inner.streams().size(), 1u);
  }
  EXPECT_EQ(TaskWork::current(), &outer);
  EXPECT_TRUE(outer.streams().empty());
  make_ones();
  make_ones();
  EXPECT_EQ(outer.streams().size(), 1u);
}

TEST_F(TaskStreamsTest, TasksRunOnTheStreamsOfTheirPartition) {
  device::PartitionRequest request;
  request.name = "batch";
  request.compute = 0.25;
  request.max_streams = 1;
  const auto partition = device::DevicePartition::create(kGpu, request);
  device::TaskStreams streams(kGpu, 1);
  auto first = streams.acquire(partition);
  EXPECT_TRUE(partition->owns(*first.stream));
  EXPECT_EQ(fake::stream_info(first.stream->handle()).num_sms, 32u);
  auto second = streams.acquire(partition);  // shares the only one
  EXPECT_EQ(second.stream, first.stream);
  EXPECT_EQ(streams.num_in_use(), 2u);
  auto other = streams.acquire(kNoClass);  // which is none of the scheduler's own
  EXPECT_THROW(partition->acquire_stream(), Error);
  const cu::Stream handle = first.stream->handle();
  fake::set_busy(handle, true);
  Task a = run(streams, std::move(first), [] {});
  Task b = run(streams, std::move(second), [] {});
  EXPECT_FALSE(a.over());
  EXPECT_THROW(partition->close(), Error);
  fake::set_busy(handle, false);
  EXPECT_EQ(a.end.get(), nullptr);
  EXPECT_EQ(b.end.get(), nullptr);
  EXPECT_EQ(run(streams, std::move(other), [] {}).end.get(), nullptr);
  EXPECT_EQ(streams.num_in_use(), 0u);
  partition->close();
  EXPECT_THROW(streams.acquire(partition), Error);
}

}  // namespace
}  // namespace gpk
