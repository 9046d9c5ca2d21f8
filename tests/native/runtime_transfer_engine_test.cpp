#include "runtime/transfer/transfer_engine.h"

#include <gtest/gtest.h>

#include "runtime_transfer_fake.h"

namespace gpk::runtime {
namespace {

using namespace transfer_test;

class RuntimeTransferEngine : public TransferEngineTest {};

TEST_F(RuntimeTransferEngine, EverySizeBothWaysPinnedAndNot) {
  TransferEngine engine(device_, clock_, options());
  for (const std::size_t size : {1ul, 255ul, 256ul, 1023ul, 1024ul, 1025ul, 4096ul, 40961ul}) {
    for (const bool pinned : {false, true}) {
      Bytes host = random_bytes(size, static_cast<unsigned>(size));
      Bytes on_device(size);
      Bytes other(size);
      Bytes back(size);
      if (pinned) device_.pin(host);
      if (pinned) device_.pin(back);
      engine.copy_h2d(address(on_device.data()), host.data(), size);
      EXPECT_EQ(on_device, host);
      engine.submit(Type::kD2D, address(other.data()), address(on_device.data()), size).wait();
      EXPECT_EQ(other, host);
      engine.copy_d2h(back.data(), address(other.data()), size);
      EXPECT_EQ(back, host) << size << pinned;
    }
  }
  EXPECT_LE(device_.max_pending_bytes, 4 * kChunk);
  EXPECT_EQ(engine.stats().of(Type::kH2D).staged_bytes * 2,
            engine.stats().of(Type::kH2D).copied_bytes);
}

TEST_F(RuntimeTransferEngine, NothingToCopy) {
  TransferEngine engine(device_, clock_, options());
  engine.copy_h2d(0, nullptr, 0);
  TransferFuture future = engine.submit(Type::kD2H, 0, 0, 0);
  EXPECT_FALSE(future.done());
  EXPECT_TRUE(future.poll());
  future.wait();
  EXPECT_EQ(future.result().state, State::kCompleted);
  EXPECT_TRUE(device_.log.empty());
}

TEST_F(RuntimeTransferEngine, BadArguments) {
  auto small_chunk = options();
  small_chunk.chunk_bytes = 255;
  EXPECT_EQ(kind_of([&] { TransferEngine engine(device_, clock_, small_chunk); }),
            Error::Kind::kValue);
  auto no_room = options();
  no_room.max_in_flight_bytes = kChunk - 1;
  EXPECT_EQ(kind_of([&] { TransferEngine engine(device_, clock_, no_room); }), Error::Kind::kValue);
  auto no_threads = options();
  no_threads.num_copy_threads = 0;
  EXPECT_EQ(kind_of([&] { TransferEngine engine(device_, clock_, no_threads); }),
            Error::Kind::kValue);
  TransferEngine engine(device_, clock_, options());
  Bytes memory(8);
  EXPECT_EQ(kind_of([&] { engine.copy_h2d(0, memory.data(), 8); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { engine.copy_d2h(nullptr, address(memory.data()), 8); }),
            Error::Kind::kValue);
  TransferEngine::SubmitOptions unknown;
  unknown.member = 3;
  unknown.after = device_.outside_event(0);  // released all the same
  EXPECT_EQ(kind_of([&] { submit_h2d(engine, memory, memory, unknown); }), Error::Kind::kValue);
  TransferFuture queued = submit_h2d(engine, memory, memory);
  EXPECT_EQ(kind_of([&] { (void)queued.result(); }), Error::Kind::kState);
}

TEST_F(RuntimeTransferEngine, UrgentOvertakesAtChunkBoundaries) {
  TransferEngine engine(device_, clock_, options());
  const Bytes large = random_bytes(100 * kChunk, 1);
  const Bytes small = random_bytes(512, 2);
  Bytes large_dst(large.size());
  Bytes small_dst(small.size());
  device_.pin(large);
  TransferFuture slow = submit_h2d(engine, large_dst, large);
  engine.pump();
  device_.advance_to(20 * static_cast<std::int64_t>(kChunk));
  engine.pump();
  const std::int64_t asked_ns = clock_.now_ns();
  TransferFuture urgent = submit_h2d(engine, small_dst, small, with_priority(1));
  urgent.wait();
  EXPECT_EQ(small_dst, small);
  EXPECT_FALSE(slow.done());
  // What was in flight, and itself.
  EXPECT_LE(clock_.now_ns() - asked_ns,
            4 * (FakeCopyDevice::cost_ns(kChunk) + 100) + FakeCopyDevice::cost_ns(512) + 100);
  slow.wait();
  EXPECT_EQ(large_dst, large);
  EXPECT_EQ(slow.result().state, State::kCompleted);
  EXPECT_GT(engine.stats().of(Type::kH2D).max_wait_ns, 0);
}

TEST_F(RuntimeTransferEngine, SamePriorityIsFirstComeFirstServed) {
  TransferEngine engine(device_, clock_, options());
  const Bytes src = random_bytes(3 * kChunk, 1);
  std::vector<Bytes> dst(3, Bytes(src.size()));
  std::vector<TransferFuture> futures;
  for (Bytes& to : dst) futures.push_back(submit_h2d(engine, to, src));
  engine.drain();
  ASSERT_EQ(device_.log.size(), 9u);
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_EQ(device_.log[i].dst, address(dst[i / 3].data()) + i % 3 * kChunk);
  EXPECT_EQ(futures[2].id(), futures[0].id() + 2);
}

// Pageable memory keeps the link as busy as pinned memory: filling a chunk takes no simulated time,
// so any gap would come from waiting for the chunk before.
TEST_F(RuntimeTransferEngine, StagingKeepsTheLinkBusy) {
  TransferEngine engine(device_, clock_, options());
  const Bytes src = random_bytes(64 * kChunk, 1);
  Bytes dst(src.size());
  engine.copy_h2d(address(dst.data()), src.data(), src.size());
  EXPECT_EQ(dst, src);
  for (std::size_t i = 1; i < device_.log.size(); ++i)
    EXPECT_EQ(device_.log[i].start_ns, device_.log[i - 1].end_ns);
  Bytes back(src.size());
  device_.log.clear();
  engine.copy_d2h(back.data(), address(dst.data()), dst.size());
  EXPECT_EQ(back, src);
  for (std::size_t i = 1; i < device_.log.size(); ++i)
    EXPECT_EQ(device_.log[i].start_ns, device_.log[i - 1].end_ns);
  EXPECT_EQ(engine.stats().of(Type::kD2H).busy_ns,
            static_cast<std::int64_t>(device_.log.size()) * FakeCopyDevice::kLatencyNs +
                FakeCopyDevice::cost_ns(src.size()));
}

TEST_F(RuntimeTransferEngine, StagedTransfersAreCutForThePipeline) {
  auto large = options();
  large.chunk_bytes = std::size_t{1} << 20;
  large.max_in_flight_bytes = std::size_t{4} << 20;
  TransferEngine engine(device_, clock_, large);
  const Bytes src = random_bytes(std::size_t{3} << 20, 1);
  Bytes dst(src.size());
  engine.copy_h2d(address(dst.data()), src.data(), src.size());
  EXPECT_EQ(dst, src);
  EXPECT_EQ(device_.log.size(), 8u);  // an eighth each, although three chunks would do
  device_.log.clear();
  device_.pin(src);
  engine.copy_h2d(address(dst.data()), src.data(), src.size());
  EXPECT_EQ(device_.log.size(), 3u);
}

TEST_F(RuntimeTransferEngine, CancelInEachState) {
  TransferEngine engine(device_, clock_, options());
  const Bytes src = random_bytes(10 * kChunk, 1);
  Bytes dst(src.size());
  device_.pin(src);
  int num_calls = 0;
  TransferEngine::SubmitOptions counted;
  counted.on_done = [&](const TransferOp& op) {
    ++num_calls;
    EXPECT_EQ(op.state, State::kCancelled);
  };
  // Queued.
  TransferFuture queued = submit_h2d(engine, dst, src, counted);
  EXPECT_TRUE(queued.cancel());
  EXPECT_TRUE(queued.done());
  EXPECT_TRUE(queued.cancel());  // still cancelled
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(kind_of([&] { queued.wait(); }), Error::Kind::kState);
  EXPECT_TRUE(device_.log.empty());
  // Between chunks: what is in flight arrives, the rest does not.
  TransferFuture running = submit_h2d(engine, dst, src, counted);
  engine.pump();
  EXPECT_EQ(device_.log.size(), 4u);
  EXPECT_TRUE(running.cancel());
  EXPECT_FALSE(running.done());
  EXPECT_EQ(kind_of([&] { running.wait(); }), Error::Kind::kState);
  EXPECT_EQ(num_calls, 2);
  EXPECT_EQ(device_.log.size(), 4u);
  EXPECT_TRUE(std::equal(src.begin(), src.begin() + 4 * kChunk, dst.begin()));
  EXPECT_TRUE(std::all_of(dst.begin() + 4 * kChunk, dst.end(), [](auto b) { return b == 0; }));
  // All chunks started: too late.
  const Bytes one = random_bytes(2 * kChunk, 3);
  TransferFuture late = submit_h2d(engine, dst, one);
  engine.pump();
  EXPECT_FALSE(late.cancel());
  late.wait();
  EXPECT_FALSE(late.cancel());
  EXPECT_EQ(late.result().state, State::kCompleted);
  // Failed.
  device_.fail_call("copy", 1);
  TransferFuture failed = submit_h2d(engine, dst, src);
  EXPECT_THROW(failed.wait(), DeviceError);
  EXPECT_FALSE(failed.cancel());
  EXPECT_EQ(engine.stats().of(Type::kH2D).num_cancelled, 2u);
  EXPECT_EQ(engine.stats().of(Type::kH2D).in_flight_bytes, 0u);
}

// One fault at each call and each position; the transfer fails with that exception, the next one
// goes through, nothing leaks.
TEST_F(RuntimeTransferEngine, Faults) {
  for (const char* call : {"copy", "record", "poll", "wait", "allocate"}) {
    for (const bool to_device : {true, false}) {
      for (int nth = 1; nth <= 4; ++nth) {
        const bool one_chunk = nth == 4;  // the first call, with nothing after it in flight
        if (nth > 1 && !one_chunk && std::string(call) == "allocate") continue;
        TransferEngine engine(device_, clock_, options());
        const Bytes src = random_bytes(one_chunk ? kChunk : 8 * kChunk, 1);
        Bytes dst(src.size());
        const Type type = to_device ? Type::kH2D : Type::kD2H;
        device_.fail_call(call, one_chunk ? 1 : nth);
        TransferFuture future =
            engine.submit(type, address(dst.data()), address(src.data()), src.size());
        EXPECT_THROW(future.wait(), DeviceError) << call << nth;
        EXPECT_EQ(device_.num_pending(type), 0u) << call << nth;  // nobody touches the memory
        EXPECT_THROW(future.wait(), DeviceError);
        EXPECT_EQ(future.result().state, State::kFailed);
        EXPECT_EQ(future.result().error, std::string(call) + " failed");
        TransferFuture next =
            engine.submit(type, address(dst.data()), address(src.data()), src.size());
        next.wait();
        EXPECT_EQ(dst, src) << call << nth;
        const LaneStats stats = engine.stats().of(type);
        EXPECT_EQ(stats.num_failed, 1u);
        EXPECT_EQ(stats.num_completed, 1u);
        EXPECT_EQ(stats.in_flight_bytes, 0u);
      }
    }
  }
}

TEST_F(RuntimeTransferEngine, FailedSynchronizeKeepsTheFirstError) {
  TransferEngine engine(device_, clock_, options());
  const Bytes src = random_bytes(kChunk, 1);
  Bytes dst(src.size());
  device_.fail_call("record", 1);
  device_.fail_call("synchronize", 1);
  try {
    submit_h2d(engine, dst, src).wait();
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_STREQ(e.what(), "record failed");
  }
  device_.fail_call("is_pinned", 1);
  EXPECT_THROW(submit_h2d(engine, dst, src), DeviceError);
}

TEST_F(RuntimeTransferEngine, StartsAfterAnEvent) {
  TransferEngine engine(device_, clock_, options());
  const Bytes src = random_bytes(2 * kChunk, 1);
  Bytes held_dst(src.size());
  Bytes free_dst(src.size());
  TransferEngine::SubmitOptions held;
  held.priority = 9;
  held.after = device_.outside_event(1'000'000);
  TransferFuture late = submit_h2d(engine, held_dst, src, held);
  TransferFuture early = submit_h2d(engine, free_dst, src);
  early.wait();  // is not held up by the one that waits
  EXPECT_LT(clock_.now_ns(), 1'000'000);
  EXPECT_FALSE(late.poll());
  late.wait();
  EXPECT_GE(device_.log.back().start_ns, 1'000'000);
  EXPECT_GT(device_.num_backoffs, 0);
  EXPECT_EQ(held_dst, src);

  held.after = device_.outside_event(0);
  device_.fail_call("poll", 1);
  TransferFuture failed = submit_h2d(engine, held_dst, src, held);
  EXPECT_THROW(failed.wait(), DeviceError);

  held.after = device_.outside_event(INT64_MAX);
  TransferFuture cancelled = submit_h2d(engine, held_dst, src, held);
  EXPECT_TRUE(cancelled.cancel());  // its event is released: the fixture checks
}

TEST_F(RuntimeTransferEngine, Callbacks) {
  TransferEngine engine(device_, clock_, options());
  const Bytes src = random_bytes(4 * kChunk, 1);
  Bytes first(src.size());
  Bytes second(src.size());
  std::vector<std::string> calls;
  TransferEngine::SubmitOptions submit;
  submit.on_done = [&](const TransferOp& op) {
    calls.emplace_back(to_string(op.state));
    // The engine is free for use, also of the same direction.
    engine.copy_h2d(address(second.data()), first.data(), first.size());
    calls.emplace_back("copied");
    throw std::runtime_error("dropped");
  };
  TransferFuture future = submit_h2d(engine, first, src, submit);
  future.wait();
  engine.drain();
  EXPECT_EQ(calls, (std::vector<std::string>{"Completed", "copied"}));
  EXPECT_EQ(second, src);
  device_.fail_call("copy", 1);
  submit.on_done = [&](const TransferOp& op) { calls.push_back(op.error); };
  EXPECT_THROW(submit_h2d(engine, first, src, submit).wait(), DeviceError);
  EXPECT_EQ(calls.back(), "copy failed");
}

TEST_F(RuntimeTransferEngine, DestructorEndsEverything) {
  const Bytes src = random_bytes(20 * kChunk, 1);
  Bytes dst(src.size());
  std::vector<TransferFuture> futures;
  int num_calls = 0;
  {
    TransferEngine engine(device_, clock_, options());
    TransferEngine::SubmitOptions submit;
    submit.on_done = [&](const TransferOp&) { ++num_calls; };
    futures.push_back(submit_h2d(engine, dst, src, submit));
    engine.pump();
    futures.push_back(submit_h2d(engine, dst, src, submit));
  }
  EXPECT_EQ(num_calls, 2);
  for (TransferFuture& future : futures) {
    EXPECT_TRUE(future.poll());
    EXPECT_EQ(kind_of([&] { future.wait(); }), Error::Kind::kState);
  }
}

TEST_F(RuntimeTransferEngine, BandwidthShares) {
  SharePacer::Options pacing;
  pacing.burst = static_cast<double>(kChunk);
  SharePacer pacer(clock_, pacing);
  pacer.add(1, 0.75);
  pacer.add(2, 0.25);
  auto shared = options();
  shared.bandwidth = &pacer;
  TransferEngine engine(device_, clock_, shared);
  const Bytes src = random_bytes(400 * kChunk, 1);
  Bytes first(src.size());
  Bytes second(src.size());
  device_.pin(src);
  TransferEngine::SubmitOptions submit;
  submit.priority = 5;  // the smaller share first in line
  submit.member = 2;
  TransferFuture b = submit_h2d(engine, second, src, submit);
  submit.priority = 0;
  submit.member = 1;
  TransferFuture a = submit_h2d(engine, first, src, submit);
  a.wait();
  const double moved = pacer.stats(1).used + pacer.stats(2).used;
  EXPECT_NEAR(pacer.stats(1).used / moved, 0.75, 0.02);
  b.wait();
  EXPECT_EQ(first, src);
  EXPECT_EQ(second, src);
  // Capped by the clock, alone: backs off in between.
  pacer.remove(1);
  pacer.add(3, 0.1, true);
  submit.member = 3;
  const std::int64_t start_ns = clock_.now_ns();
  submit_h2d(engine, first, src, submit).wait();
  const double took = static_cast<double>(clock_.now_ns() - start_ns);
  EXPECT_NEAR(static_cast<double>(src.size()) / took, 0.1, 0.02);
  // A member that leaves on the way no longer holds its transfer back.
  TransferFuture orphan = submit_h2d(engine, first, src, submit);
  engine.pump();
  pacer.remove(3);
  orphan.wait();
}

}  // namespace
}  // namespace gpk::runtime
