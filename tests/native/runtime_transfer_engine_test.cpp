#include "runtime/transfer_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

using Type = TransferType;
using State = TransferState;
using Bytes = std::vector<unsigned char>;

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Copies take simulated time and move their bytes at the end of it, so that memory which is reused
// too early shows. "Device memory" is plain memory.
class FakeCopyDevice final : public CopyDevice {
 public:
  explicit FakeCopyDevice(ManualClock& clock) : clock_(clock) {}
  ~FakeCopyDevice() override {
    EXPECT_TRUE(events_.empty()) << "events leak";
    EXPECT_TRUE(pinned_.empty()) << "pinned memory leaks";
  }

  struct Copy {
    Type type;
    std::uint64_t dst;
    std::uint64_t src;
    std::size_t bytes;
    std::int64_t start_ns;
    std::int64_t end_ns;
  };

  void copy_async(Type type, std::uint64_t dst, std::uint64_t src, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    fail("copy");
    advance();
    Lane& lane = lanes_[static_cast<std::size_t>(type)];
    const std::int64_t start_ns = std::max(lane.free_ns, clock_.now_ns());
    const Copy copy{type, dst, src, bytes, start_ns, start_ns + kLatencyNs + cost_ns(bytes)};
    lane.free_ns = copy.end_ns;
    lane.pending.push_back(copy);
    log.push_back(copy);
    max_pending_bytes = std::max(max_pending_bytes, pending_bytes(lane));
  }
  EventId record(Type type) override {
    const std::lock_guard lock(mutex_);
    fail("record");
    return add_event(lanes_[static_cast<std::size_t>(type)].free_ns);
  }
  void synchronize(Type type) override {
    const std::lock_guard lock(mutex_);
    move_to(lanes_[static_cast<std::size_t>(type)].free_ns);
    fail("synchronize");
  }
  void backoff() noexcept override {
    const std::lock_guard lock(mutex_);
    ++num_backoffs;
    move_to(clock_.now_ns() + 10'000);
  }
  bool poll(EventId event) override {
    const std::lock_guard lock(mutex_);
    fail("poll");
    move_to(clock_.now_ns() + poll_ns);
    return events_.at(event) <= clock_.now_ns();
  }
  void wait(EventId event) override {
    const std::lock_guard lock(mutex_);
    fail("wait");
    move_to(events_.at(event));
  }
  void release(EventId event) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(events_.erase(event), 1u);
  }
  bool is_pinned(const void* ptr, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    fail("is_pinned");
    for (const auto& [start, size] : outside_pinned_)
      if (address(ptr) >= start && address(ptr) + bytes <= start + size) return true;
    return false;
  }
  void* allocate_pinned(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    fail("allocate");
    void* ptr = ::operator new(bytes, std::align_val_t{4096});
    pinned_.insert(ptr);
    return ptr;
  }
  void free_pinned(void* ptr, std::size_t) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(pinned_.erase(ptr), 1u);
    ::operator delete(ptr, std::align_val_t{4096});
  }

  // An event of some other stream that happens at `at_ns`.
  EventId outside_event(std::int64_t at_ns) {
    const std::lock_guard lock(mutex_);
    return add_event(at_ns);
  }
  void pin(const Bytes& memory) { outside_pinned_[address(memory.data())] = memory.size(); }
  // The `nth` call of that name from now on throws (1: the next one).
  void fail_call(const std::string& name, int nth) { failures_[name] = nth; }
  std::size_t num_pending(Type type) {
    const std::lock_guard lock(mutex_);
    return lanes_[static_cast<std::size_t>(type)].pending.size();
  }
  void forget_failures() { failures_.clear(); }
  void advance_to(std::int64_t at_ns) {
    const std::lock_guard lock(mutex_);
    move_to(at_ns);
  }
  static std::int64_t cost_ns(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }
  static constexpr std::int64_t kLatencyNs = 100;

  std::vector<Copy> log;
  std::size_t max_pending_bytes = 0;
  std::int64_t poll_ns = 0;  // for threads: polling passes time
  int num_backoffs = 0;

 private:
  struct Lane {
    std::deque<Copy> pending;
    std::int64_t free_ns = 0;
  };

  void fail(const std::string& name) {
    const auto found = failures_.find(name);
    if (found == failures_.end() || --found->second != 0) return;
    failures_.erase(found);
    throw DeviceError(name + " failed");
  }
  EventId add_event(std::int64_t at_ns) {
    events_[++last_event_] = at_ns;
    return last_event_;
  }
  void move_to(std::int64_t at_ns) {
    if (at_ns > clock_.now_ns()) clock_.set_ns(at_ns);
    advance();
  }
  void advance() {
    for (Lane& lane : lanes_)
      while (!lane.pending.empty() && lane.pending.front().end_ns <= clock_.now_ns()) {
        const Copy& copy = lane.pending.front();
        std::memcpy(reinterpret_cast<void*>(copy.dst), reinterpret_cast<const void*>(copy.src),
                    copy.bytes);
        lane.pending.pop_front();
      }
  }
  static std::size_t pending_bytes(const Lane& lane) {
    std::size_t sum = 0;
    for (const Copy& copy : lane.pending) sum += copy.bytes;
    return sum;
  }

  ManualClock& clock_;
  std::mutex mutex_;
  std::array<Lane, kNumTransferTypes> lanes_;
  EventId last_event_ = 0;
  std::map<EventId, std::int64_t> events_;
  std::set<void*> pinned_;
  std::map<std::uint64_t, std::size_t> outside_pinned_;
  std::map<std::string, int> failures_;
};

Bytes random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

// GPK_TEST_LONG=1 runs the random tests a hundred times longer.
unsigned rounds(unsigned count) {
  const char* value = std::getenv("GPK_TEST_LONG");
  return value != nullptr && *value == '1' ? 100 * count : count;
}

template <class Call>
Error::Kind kind_of(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error::Kind::kMemory;
}

class RuntimeTransferEngine : public ::testing::Test {
 protected:
  static constexpr std::size_t kChunk = 1024;
  static TransferEngine::Options options() {
    TransferEngine::Options result;
    result.chunk_bytes = kChunk;
    result.max_in_flight_bytes = 4 * kChunk;
    result.num_copy_threads = 2;
    result.background = false;
    return result;
  }
  static TransferEngine::SubmitOptions with_priority(int priority) {
    TransferEngine::SubmitOptions result;
    result.priority = priority;
    return result;
  }
  TransferFuture submit_h2d(TransferEngine& engine, Bytes& dst, const Bytes& src,
                            TransferEngine::SubmitOptions submit = {}) {
    return engine.submit(Type::kH2D, address(dst.data()), address(src.data()), src.size(),
                         std::move(submit));
  }

  ManualClock clock_;
  FakeCopyDevice device_{clock_};
};

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

// Random submissions, cancellations and pumps. Every chunk that starts is of the first transfer in
// line; all bytes are right; nothing is left.
TEST_F(RuntimeTransferEngine, AgainstModel) {
  struct Item {
    TransferFuture future;
    int priority;
    Bytes src;
    Bytes dst;
    bool cancelled = false;
  };
  for (unsigned seed = 0; seed < rounds(15); ++seed) {
    std::mt19937 random(seed);
    TransferEngine engine(device_, clock_, options());
    std::vector<std::unique_ptr<Item>> items;
    device_.log.clear();
    for (int step = 0; step < 120; ++step) {
      const unsigned call = random() % 6;
      if (call < 2) {
        Bytes src = random_bytes(random() % (6 * kChunk), random());
        Bytes dst(src.size());
        const int priority = static_cast<int>(random() % 3);
        auto item = std::make_unique<Item>(
            Item{TransferFuture(nullptr, nullptr), priority, std::move(src), std::move(dst)});
        if (random() % 2 == 0) device_.pin(item->src);
        item->future =
            engine.submit(Type::kH2D, address(item->dst.data()), address(item->src.data()),
                          item->src.size(), with_priority(priority));
        items.push_back(std::move(item));
      } else if (call == 2 && !items.empty()) {
        Item& item = *items[random() % items.size()];
        item.cancelled = item.future.cancel();
      } else if (call == 3 && !items.empty()) {
        Item& item = *items[random() % items.size()];
        if (!item.cancelled) item.future.wait();
      } else {
        device_.advance_to(clock_.now_ns() + random() % 3000);
        const std::size_t before = device_.log.size();
        engine.pump();
        // Nothing arrives while pump() runs: its chunks go by priority, then age.
        std::pair<int, TransferId> last{-100, 0};
        for (std::size_t i = before; i < device_.log.size(); ++i)
          for (const auto& item : items) {
            const std::uint64_t start = address(item->dst.data());
            if (device_.log[i].dst < start || device_.log[i].dst >= start + item->dst.size())
              continue;
            const std::pair<int, TransferId> now{-item->priority, item->future.id()};
            EXPECT_GE(now, last);
            last = now;
          }
      }
    }
    engine.drain();
    std::size_t num_cancelled = 0;
    for (const auto& item : items) {
      ASSERT_TRUE(item->future.done());
      if (item->cancelled) {
        ++num_cancelled;
        EXPECT_EQ(item->future.result().state, State::kCancelled);
      } else {
        EXPECT_EQ(item->future.result().state, State::kCompleted);
        EXPECT_EQ(item->dst, item->src);
      }
    }
    const LaneStats stats = engine.stats().of(Type::kH2D);
    EXPECT_EQ(stats.num_cancelled, num_cancelled);
    EXPECT_EQ(stats.num_submitted, items.size());
    EXPECT_EQ(stats.queue_depth, 0u);
    EXPECT_LE(stats.max_in_flight_bytes, 4 * kChunk);
  }
}

// Faults at random: every transfer ends, those that completed have their bytes, nothing leaks.
TEST_F(RuntimeTransferEngine, AgainstModelWithFaults) {
  const char* const calls[] = {"copy", "record", "poll", "wait", "synchronize", "allocate"};
  std::size_t num_failed = 0;
  for (unsigned seed = 0; seed < rounds(30); ++seed) {
    std::mt19937 random(seed);
    TransferEngine engine(device_, clock_, options());
    std::deque<std::pair<Bytes, Bytes>> memory;  // from, to
    std::vector<TransferFuture> futures;
    for (int step = 0; step < 40; ++step) {
      if (random() % 3 == 0)
        device_.fail_call(calls[random() % 6], static_cast<int>(1 + random() % 4));
      auto& [src, dst] =
          memory.emplace_back(random_bytes(random() % (5 * kChunk), random()), Bytes());
      dst.resize(src.size());
      TransferEngine::SubmitOptions submit;
      submit.priority = static_cast<int>(random() % 2);
      if (random() % 4 == 0) submit.after = device_.outside_event(clock_.now_ns() + 500);
      futures.push_back(engine.submit(static_cast<Type>(random() % 3), address(dst.data()),
                                      address(src.data()), src.size(), std::move(submit)));
      if (random() % 2 == 0) engine.pump();
      if (random() % 8 == 0) futures[random() % futures.size()].cancel();
    }
    engine.drain();
    for (std::size_t i = 0; i < futures.size(); ++i) {
      ASSERT_TRUE(futures[i].done());
      const State state = futures[i].result().state;
      if (state == State::kCompleted) {
        EXPECT_EQ(memory[i].first, memory[i].second);
      }
      num_failed += state == State::kFailed ? 1 : 0;
    }
    for (const LaneStats& stats : engine.stats().by_type) {
      EXPECT_EQ(stats.num_submitted, stats.num_completed + stats.num_failed + stats.num_cancelled);
      EXPECT_EQ(stats.in_flight_bytes + stats.queue_depth, 0u);
    }
    device_.forget_failures();
  }
  EXPECT_GT(num_failed, 100u);
}

class RuntimeTransferEngineThreads : public RuntimeTransferEngine,
                                     public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Background, RuntimeTransferEngineThreads, ::testing::Bool());

// With threads of the engine, and with waiting threads alone, which hand the work over.
TEST_P(RuntimeTransferEngineThreads, ManyUsers) {
  device_.poll_ns = 300;
  auto threaded = options();
  threaded.background = GetParam();
  threaded.num_copy_threads = 3;
  threaded.chunk_bytes = 600 << 10;  // large enough for several copy threads
  threaded.max_in_flight_bytes = 3 * threaded.chunk_bytes;
  std::atomic<int> num_calls{0};
  {
    TransferEngine engine(device_, clock_, threaded);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 12; ++i) {
          const std::size_t size = 1 + random() % (i % 6 == 0 ? 2 << 20 : 5000);
          const Bytes src = random_bytes(size, random());
          Bytes on_device(size);
          Bytes back(size);
          if (i % 2 == 0) {
            engine.copy_h2d(address(on_device.data()), src.data(), size, static_cast<int>(t));
          } else {
            TransferEngine::SubmitOptions submit;
            submit.priority = static_cast<int>(random() % 4);
            submit.on_done = [&](const TransferOp&) { ++num_calls; };
            TransferFuture future = engine.submit(Type::kH2D, address(on_device.data()),
                                                  address(src.data()), size, std::move(submit));
            if (i % 4 == 1) {
              future.wait();
            } else {
              while (!future.poll()) std::this_thread::yield();
            }
          }
          EXPECT_EQ(on_device, src);
          TransferFuture home =
              engine.submit(Type::kD2H, address(back.data()), address(on_device.data()), size);
          if (i % 5 == 4 && home.cancel()) {
            while (!home.poll()) std::this_thread::yield();
          } else {
            home.wait();
            EXPECT_EQ(back, src);
          }
          (void)engine.stats();
        }
      });
    for (std::thread& thread : threads) thread.join();
    engine.drain();
  }
  EXPECT_EQ(num_calls, 36);
}

TEST(RuntimeTransferCopier, ManyCallersAndSizes) {
  HostCopier copier(4);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&copier, t] {
      for (const std::size_t size : {0ul, 1ul, 4097ul, 262144ul, 300001ul, 1048576ul, 1500001ul}) {
        const Bytes src = random_bytes(size, t);
        Bytes dst(size);
        copier.copy(dst.data(), src.data(), size);
        EXPECT_EQ(dst, src);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(HostCopier::default_num_threads(), 1u);
}

// Pieces never overlap, come back in order, and the ring always serves again.
TEST(RuntimeTransferStaging, RingAgainstModel) {
  ManualClock clock;
  FakeCopyDevice device(clock);
  std::mt19937 random(7);
  StagingRing ring(device, 10'000);
  EXPECT_EQ(ring.capacity_bytes(), 9984u);
  EXPECT_EQ(ring.allocated_bytes(), 0u);
  EXPECT_FALSE(ring.fits(0));
  EXPECT_FALSE(ring.fits(9985));
  std::deque<std::pair<std::uint64_t, std::size_t>> pieces;
  for (int step = 0; step < 4000; ++step) {
    const std::size_t bytes = 1 + random() % 4000;
    if (ring.fits(bytes) && random() % 3 != 0) {
      const std::uint64_t start = address(ring.acquire(bytes));
      for (const auto& [other, size] : pieces)
        ASSERT_TRUE(start + bytes <= other || other + size <= start);
      EXPECT_EQ(start % 256, 0u);
      pieces.emplace_back(start, bytes);
    } else if (!pieces.empty()) {
      ring.release_oldest();
      pieces.pop_front();
    } else {
      ASSERT_TRUE(ring.fits(bytes));
    }
    ASSERT_EQ(ring.num_pieces(), pieces.size());
  }
  EXPECT_EQ(kind_of([&] {
              while (true) (void)ring.acquire(3000);
            }),
            Error::Kind::kState);
}

}  // namespace
}  // namespace gpk::runtime
