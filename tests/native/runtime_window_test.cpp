#include "runtime/sharing/window.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "expect.h"

namespace gpk::runtime {
namespace {

struct StreamError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Runs one kernel at a time, in simulated time.
class FakeStream final : public StreamEvents {
 public:
  explicit FakeStream(ManualClock& clock) : clock_(clock) {}
  ~FakeStream() override { EXPECT_TRUE(events_.empty()) << "events leak"; }

  void launch(std::int64_t ns) {
    const std::lock_guard lock(mutex_);
    free_ns_ = std::max(free_ns_, clock_.now_ns()) + ns;
  }
  EventId record() override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(fail_record, false)) throw StreamError("record failed");
    events_[++last_] = {free_ns_, std::exchange(fail_next, false)};
    return last_;
  }
  bool poll(EventId event) override {
    const std::lock_guard lock(mutex_);
    ++num_polls;
    clock_.advance_ns(poll_ns);
    return finished(events_.at(event));
  }
  void wait(EventId event) override {
    const std::lock_guard lock(mutex_);
    ++num_waits;
    const Event& of = events_.at(event);
    if (of.end_ns > clock_.now_ns()) clock_.set_ns(of.end_ns);
    finished(of);
  }
  void release(EventId event) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(events_.erase(event), 1u);
  }

  bool fail_record = false;
  bool fail_next = false;
  std::int64_t poll_ns = 0;
  int num_polls = 0;
  int num_waits = 0;

 private:
  struct Event {
    std::int64_t end_ns;
    bool fails;
  };
  bool finished(const Event& event) {
    if (event.end_ns > clock_.now_ns()) return false;
    if (event.fails) throw StreamError("illegal address");
    return true;
  }

  ManualClock& clock_;
  std::mutex mutex_;
  EventId last_ = 0;
  std::map<EventId, Event> events_;
  std::int64_t free_ns_ = 0;
};

class RuntimeDispatchWindow : public ::testing::Test {
 protected:
  void launch(InFlightWindow& window, std::int64_t ns) {
    InFlightWindow::Slot slot = window.acquire();
    stream_.launch(ns);
    slot.launched();
  }
  ManualClock clock_;
  FakeStream stream_{clock_};
  ForegroundActivity foreground_;
};

TEST_F(RuntimeDispatchWindow, WaitsOnlyWhenFull) {
  InFlightWindow::Options options;
  options.max_in_flight = 4;
  InFlightWindow window(stream_, foreground_, clock_, options);
  for (int i = 0; i < 4; ++i) launch(window, 1000);
  EXPECT_EQ(clock_.now_ns(), 0);
  EXPECT_EQ(stream_.num_polls + stream_.num_waits, 0);
  launch(window, 1000);  // the first has to end
  EXPECT_EQ(clock_.now_ns(), 1000);
  InFlightWindow::Stats stats = window.stats();
  EXPECT_EQ(stats.num_waits, 1u);
  EXPECT_EQ(stats.wait_ns, 1000);
  EXPECT_EQ(stats.max_wait_ns, 1000);
  EXPECT_EQ(stats.num_in_flight, 4u);
  EXPECT_EQ(stats.max_in_flight, 4u);
  clock_.advance_ns(10'000);
  launch(window, 1000);  // all done: polled, not waited for
  EXPECT_EQ(window.stats().num_waits, 1u);
  EXPECT_EQ(window.stats().num_in_flight, 1u);
  window.drain();
  EXPECT_EQ(window.stats().num_in_flight, 0u);
  EXPECT_EQ(window.stats().num_launches, 6u);
}

TEST_F(RuntimeDispatchWindow, ForegroundShrinksIt) {
  InFlightWindow::Options options;
  options.max_in_flight = 8;
  options.min_in_flight = 2;
  options.quiet_ns = 500;
  InFlightWindow window(stream_, foreground_, clock_, options);
  EXPECT_EQ(window.limit(), 8u);
  for (int i = 0; i < 8; ++i) launch(window, 1000);
  foreground_.begin();
  EXPECT_EQ(window.limit(), 2u);
  launch(window, 1000);  // seven have to end
  EXPECT_EQ(clock_.now_ns(), 7000);
  EXPECT_EQ(window.stats().num_shrunk, 1u);
  foreground_.end(clock_.now_ns());
  EXPECT_EQ(window.limit(), 2u);  // for a while
  clock_.advance_ns(500);
  EXPECT_EQ(window.limit(), 8u);
}

TEST_F(RuntimeDispatchWindow, NothingLeaks) {
  InFlightWindow::Options options;
  options.max_in_flight = options.min_in_flight = 1;
  InFlightWindow window(stream_, foreground_, clock_, options);
  for (int i = 0; i < 3; ++i) {
    InFlightWindow::Slot slot = window.acquire();  // the launch throws, say
    EXPECT_EQ(window.stats().num_in_flight, 1u);
  }
  EXPECT_EQ(window.stats().num_in_flight, 0u);
  stream_.fail_record = true;
  EXPECT_THROW(launch(window, 10), StreamError);
  EXPECT_EQ(window.stats().num_in_flight, 0u);
  stream_.fail_next = true;
  launch(window, 10);
  EXPECT_THROW((void)window.acquire(), StreamError);  // waited for
  EXPECT_EQ(window.stats().num_in_flight, 0u);
  stream_.fail_next = true;
  launch(window, 10);
  clock_.advance_ns(100);
  EXPECT_THROW((void)window.acquire(), StreamError);  // polled
  stream_.fail_next = true;
  launch(window, 10);
  EXPECT_THROW(window.drain(), StreamError);
  launch(window, 10);  // as if nothing had been
  for (const auto& [low, high, quiet] :
       std::vector<std::tuple<std::size_t, std::size_t, std::int64_t>>{
           {0, 1, 0}, {3, 2, 0}, {1, 1, -1}})
    EXPECT_EQ(kind_of([&, low = low, high = high, quiet = quiet] {
                InFlightWindow wrong(stream_, foreground_, clock_, {high, low, quiet});
              }),
              Error::Kind::kValue);
}

TEST_F(RuntimeDispatchWindow, Threads) {
  stream_.poll_ns = 5;
  InFlightWindow::Options options;
  options.max_in_flight = 3;
  options.min_in_flight = 1;
  InFlightWindow window(stream_, foreground_, clock_, options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        InFlightWindow::Slot slot = window.acquire();
        EXPECT_LE(window.stats().num_in_flight, 3u);
        if (i % 7 == 0) continue;  // not launched
        stream_.launch(30);
        slot.launched();
        if (t == 0 && i % 10 == 0) {
          foreground_.begin();
          foreground_.end(clock_.now_ns());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  window.drain();
  EXPECT_EQ(window.stats().num_launches, 4u * 171u);
  EXPECT_LE(window.stats().max_in_flight, 3u);
}

}  // namespace
}  // namespace gpk::runtime
