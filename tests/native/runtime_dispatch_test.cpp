#include "runtime/dispatch/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

using State = KernelState;
using Ids = std::vector<std::uint64_t>;

struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

LaunchConfig on_stream(std::uint64_t stream) {
  LaunchConfig config;
  config.stream_id = stream;
  return config;
}

Ids ids_of(const std::vector<KernelLaunchRequest>& requests) {
  Ids ids;
  for (const KernelLaunchRequest& request : requests) ids.push_back(request.id);
  return ids;
}

// A kernel runs args[0] nanoseconds, one at a time per stream. Handle 666 fails to launch, 667
// fails while it runs.
class FakeLauncher final : public Launcher {
 public:
  explicit FakeLauncher(ManualClock& clock) : clock_(clock) {}
  ~FakeLauncher() override { EXPECT_TRUE(events_.empty()) << "events leak"; }

  EventId launch(const KernelLaunchRequest& request) override {
    const std::lock_guard lock(mutex_);
    if (request.kernel_handle == 666) throw LaunchError("no such kernel");
    order.push_back(request.id);
    return add(request.config.stream_id, request.args.empty() ? 100 : request.args[0],
               request.kernel_handle == 667);
  }
  bool poll(EventId event) override {
    const std::lock_guard lock(mutex_);
    ++num_polls;
    clock_.advance_ns(poll_ns);
    return finished(events_.at(event));
  }
  void wait(EventId event) override {
    const std::lock_guard lock(mutex_);
    const Event& of = events_.at(event);
    if (of.end_ns > clock_.now_ns()) clock_.set_ns(of.end_ns);
    finished(of);
  }
  void release(EventId event) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(events_.erase(event), 1u);
  }

  std::vector<std::uint64_t> order;
  std::int64_t poll_ns = 0;
  int num_polls = 0;

 private:
  struct Event {
    std::int64_t end_ns;
    bool fails;
  };
  EventId add(std::uint64_t stream, std::uint64_t ns, bool fails) {
    std::int64_t& free_ns = free_ns_[stream];
    free_ns = std::max(free_ns, clock_.now_ns()) + static_cast<std::int64_t>(ns);
    events_[++last_] = {free_ns, fails};
    return last_;
  }
  bool finished(const Event& event) {
    if (event.end_ns > clock_.now_ns()) return false;
    if (event.fails) throw LaunchError("illegal address");
    return true;
  }

  ManualClock& clock_;
  std::mutex mutex_;
  EventId last_ = 0;
  std::map<EventId, Event> events_;
  std::map<std::uint64_t, std::int64_t> free_ns_;
};

TEST(RuntimeDispatchConfig, Shapes) {
  EXPECT_EQ(LaunchConfig::linear(1000).grid, (LaunchConfig::Dim3{4, 1, 1}));
  EXPECT_EQ(LaunchConfig::linear(1024).grid, (LaunchConfig::Dim3{4, 1, 1}));
  EXPECT_EQ(LaunchConfig::linear(1025, 128).grid, (LaunchConfig::Dim3{9, 1, 1}));
  const LaunchConfig flat = LaunchConfig::grid_2d(100, 33, 32, 8);
  EXPECT_EQ(flat.grid, (LaunchConfig::Dim3{4, 5, 1}));
  EXPECT_EQ(flat.block, (LaunchConfig::Dim3{32, 8, 1}));
  using Kind = Error::Kind;
  EXPECT_EQ(kind_of([] { (void)LaunchConfig::linear(0); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)LaunchConfig::linear(1, 0); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)LaunchConfig::linear(1, 1025); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)LaunchConfig::linear(~0ull, 1); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)LaunchConfig::grid_2d(1, 0); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)LaunchConfig::grid_2d(1, 1u << 21, 1, 1); }), Kind::kValue);
  LaunchConfig config;
  for (const LaunchConfig::Dim3 block : {LaunchConfig::Dim3{0, 1, 1}, LaunchConfig::Dim3{33, 32, 1},
                                         LaunchConfig::Dim3{1u << 31, 1u << 31, 4}}) {
    config.block = block;
    EXPECT_EQ(kind_of([&] { config.check(); }), Kind::kValue);
  }
}

TEST(RuntimeDispatch, ReadyRespectsStreamsAndPriorities) {
  ManualClock clock;
  KernelDispatcher dispatcher(clock, 2);
  const auto a = dispatcher.queue(1, on_stream(0));
  const auto b = dispatcher.queue(1, on_stream(0));
  const auto c = dispatcher.queue(1, on_stream(0));
  const auto d = dispatcher.queue(1, on_stream(5));
  const auto e = dispatcher.queue(1, on_stream(5), {}, "task", 7);
  EXPECT_EQ(a, 1u);
  EXPECT_EQ(ids_of(dispatcher.get_ready(9)), (Ids{e, a, b, d}));
  EXPECT_EQ(ids_of(dispatcher.get_ready(9)), (Ids{e, a, b, d}));  // no state change
  EXPECT_EQ(ids_of(dispatcher.get_ready(2)), (Ids{e, a}));
  EXPECT_TRUE(dispatcher.mark_launched(b));
  EXPECT_EQ(ids_of(dispatcher.get_ready(9)), (Ids{e, a, d}));
  EXPECT_EQ(dispatcher.get_in_flight(0), (Ids{b}));
  EXPECT_TRUE(dispatcher.mark_completed(b));
  EXPECT_EQ(ids_of(dispatcher.get_ready(9)), (Ids{e, a, c, d}));
  EXPECT_EQ(dispatcher.get_requests_for_task("task"), (Ids{e}));
  EXPECT_EQ(dispatcher.get_request(e)->priority, 7);
  EXPECT_FALSE(dispatcher.get_request(77).has_value());
}

TEST(RuntimeDispatch, StateMachine) {
  ManualClock clock;
  struct Call {
    const char* name;
    bool (*run)(KernelDispatcher&, std::uint64_t);
    State to;
    std::vector<State> from;
  };
  const Call calls[] = {
      {"launched",
       [](KernelDispatcher& d, std::uint64_t id) { return d.mark_launched(id); },
       State::kLaunched,
       {State::kQueued}},
      {"completed",
       [](KernelDispatcher& d, std::uint64_t id) { return d.mark_completed(id); },
       State::kCompleted,
       {State::kLaunched}},
      {"failed",
       [](KernelDispatcher& d, std::uint64_t id) { return d.mark_failed(id, "x"); },
       State::kFailed,
       {State::kQueued, State::kLaunched}},
      {"cancel",
       [](KernelDispatcher& d, std::uint64_t id) { return d.cancel(id); },
       State::kCancelled,
       {State::kQueued}},
  };
  for (const State state :
       {State::kQueued, State::kLaunched, State::kCompleted, State::kFailed, State::kCancelled}) {
    for (const Call& call : calls) {
      KernelDispatcher dispatcher(clock);
      const auto id = dispatcher.queue(1, on_stream(0));
      if (state == State::kLaunched || state == State::kCompleted) dispatcher.mark_launched(id);
      if (state == State::kCompleted) dispatcher.mark_completed(id);
      if (state == State::kFailed) dispatcher.mark_failed(id);
      if (state == State::kCancelled) dispatcher.cancel(id);
      ASSERT_EQ(dispatcher.get_request(id)->state, state);
      const bool allowed = std::count(call.from.begin(), call.from.end(), state) > 0;
      EXPECT_EQ(call.run(dispatcher, id), allowed) << call.name << to_string(state);
      EXPECT_EQ(dispatcher.get_request(id)->state, allowed ? call.to : state);
      EXPECT_FALSE(call.run(dispatcher, 99));
      EXPECT_EQ(dispatcher.has_pending_work(), dispatcher.get_request(id)->is_live());
      const DispatchStats stats = dispatcher.stats();
      EXPECT_EQ(stats.num_queued + stats.num_in_flight + stats.num_completed + stats.num_failed +
                    stats.num_cancelled,
                1u);
      EXPECT_EQ(dispatcher.gc(), dispatcher.has_pending_work() ? 0u : 1u);
    }
  }
}

TEST(RuntimeDispatch, BackPressure) {
  ManualClock clock;
  FakeLauncher launcher(clock);
  KernelDispatcher dispatcher(clock, 1, 3, &launcher);
  for (int i = 0; i < 3; ++i) dispatcher.queue(1, on_stream(0));
  EXPECT_FALSE(dispatcher.try_queue(1, on_stream(0)).has_value());
  EXPECT_EQ(kind_of([&] { dispatcher.queue(1, on_stream(0)); }), Error::Kind::kState);
  EXPECT_EQ(dispatcher.stats().num_refused, 2u);
  EXPECT_EQ(dispatcher.pump(), 1u);
  EXPECT_TRUE(dispatcher.try_queue(1, on_stream(0)).has_value());
  dispatcher.drain();
  EXPECT_EQ(dispatcher.stats().num_completed, 4u);
  EXPECT_EQ(dispatcher.stats().max_queued, 3u);
  EXPECT_EQ(kind_of([&] { KernelDispatcher wrong(clock, 0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { KernelDispatcher wrong(clock, 1, 0); }), Error::Kind::kValue);
}

TEST(RuntimeDispatch, PumpLaunchesAndCompletes) {
  ManualClock clock;
  FakeLauncher launcher(clock);
  KernelDispatcher dispatcher(clock, 2, 100, &launcher);
  Ids ids;
  for (int i = 0; i < 4; ++i) ids.push_back(dispatcher.queue(1, on_stream(0), {1000}));
  clock.advance_ns(50);
  EXPECT_EQ(dispatcher.pump(), 2u);
  EXPECT_EQ(dispatcher.pump(), 0u);
  EXPECT_EQ(launcher.num_polls, 1);  // what follows on the stream cannot be done either
  EXPECT_EQ(dispatcher.get_request(ids[1])->state, State::kLaunched);
  EXPECT_FALSE(dispatcher.cancel(ids[1]));
  clock.advance_ns(1000);
  EXPECT_EQ(dispatcher.pump(), 2u);  // one done, one launched
  EXPECT_EQ(dispatcher.get_request(ids[0])->state, State::kCompleted);
  EXPECT_TRUE(dispatcher.cancel(ids[3]));
  dispatcher.wait(ids[2]);
  EXPECT_EQ(clock.now_ns(), 3050);
  EXPECT_EQ(kind_of([&] { dispatcher.wait(ids[3]); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { dispatcher.wait(99); }), Error::Kind::kValue);
  EXPECT_EQ(launcher.order, (Ids{ids[0], ids[1], ids[2]}));
  const DispatchStats stats = dispatcher.stats();
  EXPECT_EQ(stats.total_launched, 3u);
  EXPECT_NEAR(stats.avg_wait_ms(), (50 + 50 + 1050) / 3.0 * 1e-6, 1e-12);
  EXPECT_GT(stats.avg_exec_ms(), 0.0);
}

TEST(RuntimeDispatch, FailuresStayWithTheirRequest) {
  ManualClock clock;
  FakeLauncher launcher(clock);
  KernelDispatcher dispatcher(clock, 2, 100, &launcher);
  const auto bad_launch = dispatcher.queue(666, on_stream(0));
  const auto bad_kernel = dispatcher.queue(667, on_stream(0));
  const auto good = dispatcher.queue(1, on_stream(0));
  dispatcher.drain();
  EXPECT_EQ(dispatcher.get_request(bad_launch)->state, State::kFailed);
  EXPECT_EQ(dispatcher.get_request(bad_launch)->error, "no such kernel");
  EXPECT_EQ(dispatcher.get_request(bad_kernel)->state, State::kFailed);
  EXPECT_EQ(dispatcher.get_request(good)->state, State::kCompleted);
  EXPECT_THROW(dispatcher.wait(bad_launch), LaunchError);
  EXPECT_THROW(dispatcher.wait(bad_kernel), LaunchError);
  dispatcher.wait(good);
  EXPECT_EQ(dispatcher.stats().num_in_flight, 0u);
  const auto by_hand = dispatcher.queue(1, on_stream(0));
  dispatcher.mark_failed(by_hand, "given up");
  EXPECT_EQ(kind_of([&] { dispatcher.wait(by_hand); }), Error::Kind::kState);
}

TEST(RuntimeDispatch, ByHandAndWithoutLauncher) {
  ManualClock clock;
  FakeLauncher launcher(clock);
  KernelDispatcher none(clock);
  EXPECT_EQ(kind_of([&] { none.pump(); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { none.wait(1); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { none.drain(); }), Error::Kind::kState);
  KernelDispatcher mixed(clock, 1, 100, &launcher);
  const auto first = mixed.queue(1, on_stream(0));
  const auto second = mixed.queue(1, on_stream(0));
  mixed.mark_launched(first);
  EXPECT_EQ(kind_of([&] { mixed.wait(second); }), Error::Kind::kState);
  mixed.mark_completed(first);
  mixed.wait(second);
  const auto third = mixed.queue(1, on_stream(0));
  mixed.pump();
  mixed.clear();  // its event is released; the fake checks
  EXPECT_FALSE(mixed.get_request(third).has_value());
  EXPECT_FALSE(mixed.has_pending_work());
  EXPECT_EQ(mixed.pump(), 0u);
}

// Random calls: streams never hold more than their limit, order within a stream and priority, every
// request ends once.
TEST(RuntimeDispatch, AgainstModel) {
  for (unsigned seed = 0; seed < rounds(15); ++seed) {
    std::mt19937 random(seed);
    ManualClock clock;
    FakeLauncher launcher(clock);
    const std::size_t limit = 1 + seed % 3;
    KernelDispatcher dispatcher(clock, limit, 1000, &launcher);
    std::map<std::uint64_t, State> model;  // what the test did to it
    for (int step = 0; step < 300; ++step) {
      clock.advance_ns(static_cast<std::int64_t>(random() % 200));
      switch (random() % 4) {
        case 0:
        case 1: {
          const std::uint64_t handle = random() % 20 == 0 ? 666 + random() % 2 : 1;
          model[dispatcher.queue(handle, on_stream(random() % 3), {random() % 500}, "",
                                 static_cast<int>(random() % 2))] = State::kQueued;
          break;
        }
        case 2:
          if (!model.empty()) {
            const std::uint64_t id = 1 + random() % model.size();
            const bool was_queued = dispatcher.get_request(id)->state == State::kQueued;
            ASSERT_EQ(dispatcher.cancel(id), was_queued);
            if (was_queued) model[id] = State::kCancelled;
          }
          break;
        default: dispatcher.pump();
      }
      for (std::uint64_t stream = 0; stream < 3; ++stream)
        ASSERT_LE(dispatcher.get_in_flight(stream).size(), limit);
    }
    dispatcher.drain();
    for (const auto& [id, state] : model) {
      const KernelLaunchRequest request = *dispatcher.get_request(id);
      if (state == State::kCancelled) {
        EXPECT_EQ(request.state, State::kCancelled);
      } else {
        EXPECT_EQ(request.state, request.kernel_handle == 1 ? State::kCompleted : State::kFailed);
      }
    }
    std::map<std::pair<std::uint64_t, int>, std::uint64_t> last;
    for (const std::uint64_t id : launcher.order) {
      const KernelLaunchRequest request = *dispatcher.get_request(id);
      std::uint64_t& before = last[{request.config.stream_id, request.priority}];
      EXPECT_LT(before, id);
      before = id;
    }
    EXPECT_EQ(dispatcher.stats().num_in_flight + dispatcher.stats().num_queued, 0u);
    EXPECT_EQ(dispatcher.gc(), model.size());
  }
}

TEST(RuntimeDispatch, Threads) {
  ManualClock clock;
  FakeLauncher launcher(clock);
  launcher.poll_ns = 20;
  KernelDispatcher dispatcher(clock, 2, 64, &launcher);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        std::optional<std::uint64_t> id;
        while (!(id = dispatcher.try_queue(i % 20 == 19 ? 667 : 1, on_stream(t % 2), {50})))
          dispatcher.pump();
        if (i % 3 == 0) {
          try {
            dispatcher.wait(*id);
          } catch (const LaunchError&) {
          }
        } else if (i % 3 == 1) {
          dispatcher.cancel(*id);
        } else {
          dispatcher.pump();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  dispatcher.drain();
  const DispatchStats stats = dispatcher.stats();
  EXPECT_EQ(stats.num_completed + stats.num_failed + stats.num_cancelled, 240u);
}

}  // namespace
}  // namespace gpk::runtime
