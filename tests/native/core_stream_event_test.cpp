#include <cmath>
#include <thread>

#include "base/error.h"
#include "core/event.h"
#include "core/stream.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class StreamTest : public CoreTest {
 protected:
  static std::shared_ptr<Stream> make(Device device = kGpu) {
    return Stream::create(device, StreamPriority::kLow);
  }
};
class EventTest : public StreamTest {};

TEST_F(StreamTest, PriorityAndFlags) {
  const auto high = Stream::create(kGpu, StreamPriority::kHigh);
  const auto low = Stream::create(kGpu, StreamPriority::kLow);
  EXPECT_EQ(fake::stream_info(high->handle()).priority, -5);
  EXPECT_EQ(fake::stream_info(low->handle()).priority, 0);
  EXPECT_EQ(fake::stream_info(low->handle()).flags, cu::kStreamNonBlocking);
  EXPECT_EQ(high->priority(), StreamPriority::kHigh);
  EXPECT_EQ(low->priority(), StreamPriority::kLow);
  EXPECT_EQ(low->context(), &Context::get(0));
  EXPECT_NE(low->handle_value(), high->handle_value());
}

TEST_F(StreamTest, IsDestroyedWithItsLastUse) {
  auto stream = make();
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 1u);
  auto copy = stream;
  stream.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 1u);
  copy.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 0u);
}

TEST_F(StreamTest, DefaultStreamIsTheLegacyOne) {
  const auto stream = Stream::default_for(kGpu);
  EXPECT_EQ(stream->handle(), nullptr);
  EXPECT_EQ(Stream::default_for(kGpu), stream);
  EXPECT_EQ(current_stream(kGpu), stream);
  EXPECT_FALSE(stream->capturing());
  stream->synchronize();
  EXPECT_EQ(fake::num_calls("cuStreamSynchronize"), 1u);
}

TEST_F(StreamTest, CpuStreamsAreIdentities) {
  const auto a = make(kCpu);
  const auto b = make(kCpu);
  EXPECT_NE(a->handle_value(), b->handle_value());
  EXPECT_EQ(a->context(), nullptr);
  EXPECT_TRUE(a->query());
  EXPECT_FALSE(a->capturing());
  a->synchronize();
  a->wait(*b);
  EXPECT_EQ(Stream::default_for(kCpu), Stream::default_for(kCpu));
  EXPECT_EQ(fake::num_calls("cuInit"), 0u);
}

TEST_F(StreamTest, ScopesNest) {
  const auto outer = make();
  const auto inner = make();
  const auto original = current_stream(kGpu);
  {
    const StreamScope first(outer);
    EXPECT_EQ(current_stream(kGpu), outer);
    {
      const StreamScope second(inner);
      EXPECT_EQ(current_stream(kGpu), inner);
    }
    EXPECT_EQ(current_stream(kGpu), outer);
    EXPECT_THROW(
        {
          const StreamScope third(inner);
          throw Error("leaves the scope");
        },
        Error);
    EXPECT_EQ(current_stream(kGpu), outer);
  }
  EXPECT_EQ(current_stream(kGpu), original);
}

TEST_F(StreamTest, DevicesHaveSeparateCurrentStreams) {
  fake::set_devices({{}, {}});
  const Device second{DeviceKind::kCuda, 1};
  const auto gpu = make(second);
  const auto cpu = make(kCpu);
  const StreamScope on_gpu(gpu);
  const StreamScope on_cpu(cpu);
  EXPECT_EQ(current_stream(second), gpu);
  EXPECT_EQ(current_stream(kCpu), cpu);
  EXPECT_EQ(current_stream(kGpu), Stream::default_for(kGpu));
}

TEST_F(StreamTest, CurrentStreamIsPerThread) {
  const auto mine = make();
  const StreamScope scope(mine);
  std::thread([&] {
    EXPECT_EQ(current_stream(kGpu), Stream::default_for(kGpu));
    exchange_current_stream(make());
  }).join();
  EXPECT_EQ(current_stream(kGpu), mine);
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 1u);  // the thread's own went with it
}

TEST_F(StreamTest, ExchangeReturnsTheReplacedOne) {
  const auto stream = make();
  EXPECT_EQ(exchange_current_stream(stream), Stream::default_for(kGpu));
  EXPECT_EQ(exchange_current_stream(Stream::default_for(kGpu)), stream);
}

TEST_F(StreamTest, CurrentStreamOfADeviceThatDoesNotExist) {
  EXPECT_THROW(current_stream({DeviceKind::kCuda, 1}), InvalidArgument);
}

TEST_F(StreamTest, CurrentStreamOfANegativeDevice) {
  EXPECT_THROW(current_stream({DeviceKind::kCuda, -1}), InvalidArgument);
}

TEST_F(StreamTest, ForeignStreamIsNotDestroyedAndKeepsItsOwner) {
  Context::get(0).make_current();
  cu::Stream handle = nullptr;
  ASSERT_EQ(fake::api().cuStreamCreateWithPriority(&handle, 0, 0), cu::kSuccess);
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = owner;
  auto stream = Stream::wrap(kGpu, reinterpret_cast<std::uintptr_t>(handle), std::move(owner));
  EXPECT_EQ(stream->handle(), handle);
  stream->synchronize();
  EXPECT_FALSE(watch.expired());
  stream.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 1u);
  EXPECT_EQ(fake::api().cuStreamDestroy(handle), cu::kSuccess);
}

TEST_F(StreamTest, QueryAndSynchronize) {
  const auto stream = make();
  EXPECT_TRUE(stream->query());
  fake::set_busy(stream->handle(), true);
  EXPECT_FALSE(stream->query());
  stream->synchronize();
  EXPECT_TRUE(stream->query());
  fake::fail_next("cuStreamQuery", cu::kInvalidHandle);
  EXPECT_EQ(thrown<CudaError>([&] { stream->query(); })->call(), "cuStreamQuery");
}

TEST_F(StreamTest, WaitsForAnotherStreamByEvent) {
  const auto producer = make();
  const auto consumer = make();
  consumer->wait(*producer);
  const auto calls = fake::stream_calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].function, "cuEventRecord");
  EXPECT_EQ(calls[0].stream, producer->handle());
  EXPECT_EQ(calls[1].function, "cuStreamWaitEvent");
  EXPECT_EQ(calls[1].stream, consumer->handle());
  EXPECT_EQ(calls[1].event, calls[0].event);
  EXPECT_EQ(fake::num_live(fake::Kind::kEvent), 0u);
}

TEST_F(StreamTest, WaitingForItselfIsNothing) {
  const auto stream = make();
  stream->wait(*stream);
  EXPECT_TRUE(fake::stream_calls().empty());
}

TEST_F(StreamTest, WaitsAcrossDevices) {
  fake::set_devices({{}, {}});
  const auto first = make();
  const auto second = make({DeviceKind::kCuda, 1});
  second->wait(*first);
  const auto calls = fake::stream_calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].stream, first->handle());
  EXPECT_EQ(calls[1].stream, second->handle());
}

TEST_F(EventTest, ElapsedTime) {
  const auto stream = make();
  const auto start = Event::create(kGpu, {});
  const auto stop = Event::create(kGpu, {});
  start->record(*stream);
  fake::advance_ms(2.5);
  stop->record(*stream);
  stop->synchronize();
  EXPECT_NEAR(Event::elapsed_ms(*start, *stop), 2.5, 0.01);
}

TEST_F(EventTest, ElapsedTimeOnTheCpu) {
  const auto start = Event::create(kCpu, {});
  const auto stop = Event::create(kCpu, {});
  const auto stream = Stream::default_for(kCpu);
  start->record(*stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  stop->record(*stream);
  EXPECT_TRUE(stop->query());
  stop->synchronize();
  EXPECT_GE(Event::elapsed_ms(*start, *stop), 2.0);
}

TEST_F(EventTest, ElapsedTimeErrors) {
  const auto stream = make();
  for (const Device device : {kGpu, kCpu}) {
    const auto& on = device.is_cuda() ? stream : Stream::default_for(kCpu);
    const auto start = Event::create(device, {});
    const auto stop = Event::create(device, {});
    const auto untimed = Event::create(device, {.timing = false});
    start->record(*on);
    untimed->record(*on);
    EXPECT_CONTAINS(message_of<Error>([&] { Event::elapsed_ms(*start, *stop); }), "recorded");
    EXPECT_CONTAINS(message_of<Error>([&] { Event::elapsed_ms(*start, *untimed); }),
                    "without timing");
  }
}

TEST_F(EventTest, ElapsedTimeOfUnfinishedWork) {
  const auto stream = make();
  const auto start = Event::create(kGpu, {});
  const auto stop = Event::create(kGpu, {});
  start->record(*stream);
  fake::set_busy(stream->handle(), true);
  stop->record(*stream);
  EXPECT_FALSE(stop->query());
  EXPECT_CONTAINS(message_of<Error>([&] { Event::elapsed_ms(*start, *stop); }), "synchronize");
  stop->synchronize();
  EXPECT_TRUE(stop->query());
  EXPECT_NO_THROW(Event::elapsed_ms(*start, *stop));
}

// Neither clock can compare them.
TEST_F(EventTest, ElapsedTimeBetweenDevices) {
  const auto cpu = Event::create(kCpu, {});
  const auto gpu = Event::create(kGpu, {});
  cpu->record(*Stream::default_for(kCpu));
  gpu->record(*Stream::default_for(kGpu));
  EXPECT_THROW(Event::elapsed_ms(*cpu, *gpu), InvalidArgument);
  EXPECT_THROW(Event::elapsed_ms(*gpu, *cpu), InvalidArgument);
}

TEST_F(EventTest, NeverRecordedIsDone) {
  const auto event = Event::create(kGpu, {});
  EXPECT_TRUE(event->query());
  event->synchronize();
}

TEST_F(EventTest, RecordOnAStreamOfAnotherDevice) {
  const auto event = Event::create(kGpu, {});
  EXPECT_EQ(message_of<InvalidArgument>([&] { event->record(*Stream::default_for(kCpu)); }),
            "event: it belongs to cuda:0, the stream to cpu");
}

TEST_F(EventTest, StreamWaitsForEvent) {
  const auto producer = make();
  const auto consumer = make();
  const auto event = Event::create(kGpu, {.timing = false, .blocking_sync = true});
  event->record(*producer);
  consumer->wait(*event);
  const auto calls = fake::stream_calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].function, "cuStreamWaitEvent");
  EXPECT_EQ(calls[1].event, event->handle());
}

}  // namespace
}  // namespace gpk
