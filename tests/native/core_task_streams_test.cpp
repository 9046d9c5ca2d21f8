// Streams of tasks, and the thread that sees when their work is done.
#include "core/task_streams.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "core/error.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

using namespace std::chrono_literals;

class TaskStreamsTest : public CoreTest {};

TEST_F(TaskStreamsTest, WorkOnTheCpuIsDoneAtOnce) {
  TaskStreams streams(kCpu, 2);
  auto stream = streams.acquire(StreamPriority::kLow);
  EXPECT_EQ(streams.num_in_use(), 1u);
  bool done = false;
  streams.finish(std::move(stream), [&](const std::exception_ptr& error) {
    EXPECT_EQ(error, nullptr);
    EXPECT_EQ(streams.num_in_use(), 0u);
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST_F(TaskStreamsTest, WorkIsDoneWhenTheEventIs) {
  TaskStreams streams(kGpu, 2);
  auto stream = streams.acquire(StreamPriority::kHigh);
  const cu::Stream handle = stream->handle();
  fake::set_busy(handle, true);
  std::promise<void> promise;
  std::future<void> done = promise.get_future();
  streams.finish(std::move(stream), [&](const std::exception_ptr&) { promise.set_value(); });
  EXPECT_EQ(done.wait_for(5ms), std::future_status::timeout);
  EXPECT_EQ(streams.num_in_use(), 1u);
  fake::set_busy(handle, false);
  ASSERT_EQ(done.wait_for(10s), std::future_status::ready);
  auto again = streams.acquire(StreamPriority::kHigh);
  EXPECT_EQ(again->handle(), handle);  // used again
  streams.finish(std::move(again), [](const std::exception_ptr&) {});
}

TEST_F(TaskStreamsTest, AFailureIsReportedAndItsStreamNotUsedAgain) {
  TaskStreams streams(kGpu, 1);
  auto stream = streams.acquire(StreamPriority::kLow);
  fake::set_busy(stream->handle(), true);
  std::promise<std::exception_ptr> promise;
  auto failure = promise.get_future();
  fake::fail_next("cuEventQuery", 1);
  streams.finish(std::move(stream), [&](std::exception_ptr error) { promise.set_value(error); });
  EXPECT_THROW(std::rethrow_exception(failure.get()), CudaError);
  auto next = streams.acquire(StreamPriority::kLow);
  EXPECT_NE(next, nullptr);
  fake::fail_next("cuEventRecord", 1);
  std::exception_ptr at_once;
  streams.finish(std::move(next), [&](std::exception_ptr error) { at_once = error; });
  EXPECT_THROW(std::rethrow_exception(at_once), CudaError);
  EXPECT_EQ(streams.num_in_use(), 0u);
}

TEST_F(TaskStreamsTest, AStreamThatCannotBeMadeLeavesItsPlace) {
  TaskStreams streams(kGpu, 1);
  fake::fail_next("cuStreamCreateWithPriority", cu::kOutOfMemory);
  EXPECT_ANY_THROW(streams.acquire(StreamPriority::kLow));
  EXPECT_EQ(streams.num_in_use(), 0u);
  auto stream = streams.acquire(StreamPriority::kLow);
  streams.finish(std::move(stream), [](const std::exception_ptr&) {});
  EXPECT_THROW(TaskStreams(kGpu, 0), InvalidArgument);
}

TEST_F(TaskStreamsTest, AcquireWaitsForAFreeStreamAndEndsWithClose) {
  TaskStreams streams(kCpu, 1);
  auto only = streams.acquire(StreamPriority::kLow);
  auto second =
      std::async(std::launch::async, [&] { return streams.acquire(StreamPriority::kLow); });
  EXPECT_EQ(second.wait_for(5ms), std::future_status::timeout);
  streams.finish(std::move(only), [](const std::exception_ptr&) {});
  auto got = second.get();
  ASSERT_NE(got, nullptr);
  auto third =
      std::async(std::launch::async, [&] { return streams.acquire(StreamPriority::kLow); });
  EXPECT_EQ(third.wait_for(5ms), std::future_status::timeout);
  streams.close();
  EXPECT_EQ(third.get(), nullptr);
  streams.finish(std::move(got), [](const std::exception_ptr&) {});
}

TEST_F(TaskStreamsTest, ManyThreads) {
  std::atomic<int> num_done = 0;
  {
    TaskStreams streams(kGpu, 4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          auto stream = streams.acquire(i % 2 == 0 ? StreamPriority::kLow : StreamPriority::kHigh);
          EXPECT_LE(streams.num_in_use(), 4u);
          streams.finish(std::move(stream), [&](const std::exception_ptr&) { ++num_done; });
        }
      });
    for (std::thread& thread : threads) thread.join();
    while (num_done < 300) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(streams.num_in_use(), 0u);
  }
  EXPECT_EQ(fake::num_live(fake::Kind::kEvent), 0u);
}

TEST_F(TaskStreamsTest, TheLastOwnerMayLetGoInACallback) {
  auto streams = std::make_shared<TaskStreams>(kGpu, 2);
  auto stream = streams->acquire(StreamPriority::kLow);
  const cu::Stream handle = stream->handle();
  fake::set_busy(handle, true);
  std::promise<void> promise;
  auto gone = promise.get_future();
  std::shared_ptr<TaskStreams> last = streams;
  TaskStreams& used = *streams;
  used.finish(std::move(stream), [last = std::move(last), &promise](const std::exception_ptr&) {
    promise.set_value();
  });
  streams.reset();
  fake::set_busy(handle, false);
  ASSERT_EQ(gone.wait_for(10s), std::future_status::ready);
  while (fake::num_live(fake::Kind::kStream) > 0) std::this_thread::sleep_for(1ms);
}

}  // namespace
}  // namespace gpk
