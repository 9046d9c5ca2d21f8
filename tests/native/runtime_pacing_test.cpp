#include "runtime/sharing/pacing_share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "expect.h"
#include "runtime/sharing/pacing_bucket.h"

namespace gpk::runtime {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(RuntimePacingBucket, RefillDebtAndBurst) {
  TokenBucket bucket(0.25, 100.0, 0);
  EXPECT_TRUE(bucket.allowed(0));
  bucket.charge(300.0, 0);  // 200 in debt
  EXPECT_FALSE(bucket.allowed(0));
  EXPECT_EQ(bucket.ready_in_ns(0), 801);
  EXPECT_FALSE(bucket.allowed(800));
  EXPECT_TRUE(bucket.allowed(801));
  EXPECT_EQ(bucket.ready_in_ns(801), 0);
  EXPECT_DOUBLE_EQ(bucket.credit(1'000'000), 100.0);
  bucket.charge(-50.0, 1'000'000);  // never above the burst
  EXPECT_DOUBLE_EQ(bucket.credit(1'000'000), 100.0);
  EXPECT_EQ(kind_of([] { TokenBucket wrong(0.0, 1.0, 0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([] { TokenBucket wrong(1.0, std::nan(""), 0); }), Error::Kind::kValue);
}

// A GPU that runs one kernel at a time in the order of launches, and members that keep `window`
// launches in flight while they have work. Time moves from one completion to the next.
class FakeGpu {
 public:
  struct Client {
    SharePacer::MemberId id;
    std::function<double(std::mt19937&)> cost_ns;
    // Whether it has work to launch at a time.
    std::function<bool(std::int64_t)> wants = [](std::int64_t) { return true; };
    std::size_t window = 2;
    std::size_t num_in_flight = 0;
  };
  struct Done {
    SharePacer::MemberId id;
    std::int64_t start_ns;
    std::int64_t end_ns;
  };

  FakeGpu(ManualClock& clock, SharePacer& pacer, std::vector<Client> clients, unsigned seed)
      : clock_(clock), pacer_(pacer), clients_(std::move(clients)), random_(seed) {}

  void run_until(std::int64_t end_ns) {
    while (clock_.now_ns() < end_ns) {
      launch_what_may();
      if (queue_.empty()) {
        clock_.advance_ns(10'000);  // the clients ask again
        continue;
      }
      const auto [index, cost] = queue_.front();
      queue_.pop_front();
      const std::int64_t start_ns = clock_.now_ns();
      clock_.advance_ns(static_cast<std::int64_t>(cost));
      pacer_.end(clients_[index].id, cost);
      --clients_[index].num_in_flight;
      done.push_back({clients_[index].id, start_ns, clock_.now_ns()});
    }
  }

  // Busy nanoseconds of a member between two times.
  [[nodiscard]] double used(SharePacer::MemberId id, std::int64_t from_ns,
                            std::int64_t to_ns) const {
    double sum = 0.0;
    for (const Done& one : done)
      if (one.id == id)
        sum += static_cast<double>(std::max<std::int64_t>(
            0, std::min(to_ns, one.end_ns) - std::max(from_ns, one.start_ns)));
    return sum;
  }

  std::vector<Done> done;

 private:
  void launch_what_may() {
    for (bool launched = true; launched;) {
      launched = false;
      for (std::size_t i = 0; i < clients_.size(); ++i) {
        Client& client = clients_[i];
        if (client.num_in_flight >= client.window || !client.wants(clock_.now_ns()) ||
            !pacer_.try_begin(client.id))
          continue;
        queue_.emplace_back(i, std::floor(client.cost_ns(random_)));
        ++client.num_in_flight;
        launched = true;
      }
    }
  }

  ManualClock& clock_;
  SharePacer& pacer_;
  std::vector<Client> clients_;
  std::mt19937 random_;
  std::deque<std::pair<std::size_t, double>> queue_;
};

std::function<double(std::mt19937&)> uniform_ns(double low, double high) {
  return [=](std::mt19937& random) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
}

// The largest error of a share over windows of 100 ms at any phase, after a start-up of one window.
double worst_error(const FakeGpu& gpu, SharePacer::MemberId id, double share, std::int64_t end_ns) {
  double worst = 0.0;
  for (std::int64_t start = 100 * kMs; start + 100 * kMs <= end_ns; start += 7 * kMs)
    worst = std::max(worst, std::abs(gpu.used(id, start, start + 100 * kMs) / 1e8 - share));
  return worst;
}

TEST(RuntimePacingShares, SplitsWithinTwoPercentOverHundredMilliseconds) {
  const std::vector<std::vector<double>> splits = {{0.75, 0.25}, {0.5, 0.25, 0.25}, {0.9, 0.1}};
  for (const auto& shares : splits) {
    for (unsigned seed = 0; seed < rounds(4); ++seed) {
      ManualClock clock;
      SharePacer pacer(clock);
      std::vector<FakeGpu::Client> clients;
      for (std::size_t i = 0; i < shares.size(); ++i) {
        pacer.add(i, shares[i]);
        // Every member has kernels of another length.
        FakeGpu::Client client{i, uniform_ns(5e3, i % 2 == 0 ? 4e5 : 8e4)};
        client.window = 1 + (seed + i) % 3;
        clients.push_back(client);
      }
      FakeGpu gpu(clock, pacer, clients, seed);
      gpu.run_until(700 * kMs);
      for (std::size_t i = 0; i < shares.size(); ++i) {
        EXPECT_LE(worst_error(gpu, i, shares[i], 700 * kMs), 0.02) << shares[i] << " seed " << seed;
        EXPECT_NEAR(pacer.stats(i).last_window_share, shares[i], 0.02);
      }
    }
  }
}

TEST(RuntimePacingShares, WorkConservingWhenOthersAreIdle) {
  ManualClock clock;
  SharePacer pacer(clock);
  pacer.add(1, 0.75);
  pacer.add(2, 0.25);
  FakeGpu::Client first{1, uniform_ns(1e4, 1e5)};
  first.wants = [](std::int64_t now) { return now >= 200 * kMs && now < 400 * kMs; };
  FakeGpu gpu(clock, pacer, {first, {2, uniform_ns(1e4, 1e5)}}, 1);
  gpu.run_until(600 * kMs);
  // Alone: everything. Together: the shares, at once, although 2 used far more before. Alone again.
  EXPECT_GE(gpu.used(2, 0, 200 * kMs), 0.99 * 200e6);
  EXPECT_NEAR(gpu.used(1, 200 * kMs, 300 * kMs) / 1e8, 0.75, 0.02);
  EXPECT_NEAR(gpu.used(1, 300 * kMs, 400 * kMs) / 1e8, 0.75, 0.02);
  EXPECT_GE(gpu.used(2, 402 * kMs, 600 * kMs), 0.98 * 198e6);
}

TEST(RuntimePacingShares, BusyTotalStaysWholeWithBurstyClients) {
  ManualClock clock;
  SharePacer pacer(clock);
  pacer.add(1, 0.5);
  pacer.add(2, 0.5);
  FakeGpu::Client bursty{1, uniform_ns(1e4, 5e4)};
  bursty.wants = [](std::int64_t now) { return now / (5 * kMs) % 4 == 0; };
  FakeGpu gpu(clock, pacer, {bursty, {2, uniform_ns(1e4, 5e4)}}, 3);
  gpu.run_until(400 * kMs);
  const double used = gpu.used(1, 0, 400 * kMs) + gpu.used(2, 0, 400 * kMs);
  // Each end of a burst may leave the GPU without work for at most idle_after_ns.
  EXPECT_GE(used, (400 - 20) * 1e6);
  EXPECT_NEAR(gpu.used(1, 0, 400 * kMs), 50e6, 5e6);  // half of its 100 ms
}

TEST(RuntimePacingShares, CapHoldsAlsoAlone) {
  ManualClock clock;
  SharePacer pacer(clock);
  pacer.add(1, 0.25, /*capped=*/true);
  FakeGpu gpu(clock, pacer, {{1, uniform_ns(5e3, 4e5)}}, 5);
  gpu.run_until(700 * kMs);
  EXPECT_LE(worst_error(gpu, 1, 0.25, 700 * kMs), 0.02);
  // The others get what it leaves: it does not hold them back while it has no credit.
  ManualClock clock2;
  SharePacer both(clock2);
  both.add(1, 0.25, true);
  both.add(2, 0.5);
  FakeGpu shared(clock2, both, {{1, uniform_ns(5e3, 4e5)}, {2, uniform_ns(5e3, 4e5)}}, 6);
  shared.run_until(700 * kMs);
  EXPECT_LE(worst_error(shared, 1, 0.25, 700 * kMs), 0.02);
  EXPECT_LE(worst_error(shared, 2, 0.75, 700 * kMs), 0.02);
}

TEST(RuntimePacingShares, BytesOfALink) {
  ManualClock clock;
  SharePacer::Options options;
  options.capacity_per_ns = 50.0;  // 50 GB/s
  options.burst = 1 << 20;
  SharePacer pacer(clock, options);
  pacer.add(1, 0.25, true);
  double bytes = 0.0;
  while (clock.now_ns() < 100 * kMs) {
    if (pacer.allowed(1)) {
      pacer.charge(1, 4 << 20);
      bytes += 4 << 20;
    } else {
      const std::int64_t wait_ns = pacer.retry_in_ns(1);
      ASSERT_GT(wait_ns, 0);
      clock.advance_ns(wait_ns);
      ASSERT_TRUE(pacer.allowed(1));  // exact for a cap
    }
  }
  EXPECT_NEAR(bytes / (50.0 * 1e8), 0.25, 0.02);
  EXPECT_NEAR(pacer.stats(1).used, bytes, 1.0);
}

TEST(RuntimePacingShares, LaunchesThatDoNotHappenCostNothing) {
  ManualClock clock;
  SharePacer pacer(clock);
  pacer.add(1, 0.5);
  pacer.add(2, 0.5);
  pacer.begin_demand(2);
  ASSERT_TRUE(pacer.try_begin(1));
  pacer.end(1, 400'000.0);
  for (int i = 0; i < 100; ++i) {  // each would be charged 400 us in advance
    ASSERT_TRUE(pacer.try_begin(1)) << i;
    pacer.abandon(1);
  }
  EXPECT_EQ(pacer.stats(1).num_started, 1u);
  EXPECT_EQ(pacer.stats(1).num_in_flight, 0u);
  pacer.charge(1, 200'000.0);
  EXPECT_FALSE(pacer.allowed(1));  // 600 us ahead of 2, which asks all the time
  clock.advance_ns(100 * kMs);
  EXPECT_FALSE(pacer.allowed(1));
  EXPECT_GT(pacer.retry_in_ns(1), 0);
  pacer.end_demand(2);
  clock.advance_ns(2 * kMs);
  EXPECT_TRUE(pacer.allowed(1));  // 2 has given up its share
  EXPECT_EQ(pacer.stats(1).num_refused, 2u);
}

TEST(RuntimePacingShares, Errors) {
  ManualClock clock;
  SharePacer pacer(clock);
  pacer.add(1, 0.6);
  using Kind = Error::Kind;
  EXPECT_EQ(kind_of([&] { pacer.add(1, 0.1); }), Kind::kValue);
  EXPECT_EQ(kind_of([&] { pacer.add(2, 0.0); }), Kind::kValue);
  EXPECT_EQ(kind_of([&] { pacer.add(2, std::nan("")); }), Kind::kValue);
  EXPECT_EQ(kind_of([&] { pacer.add(2, 0.5); }), Kind::kState);
  EXPECT_FALSE(pacer.contains(2));
  EXPECT_EQ(kind_of([&] { (void)pacer.allowed(2); }), Kind::kValue);
  EXPECT_EQ(kind_of([&] { (void)pacer.stats(2); }), Kind::kValue);
  EXPECT_EQ(kind_of([&] { pacer.remove(2); }), Kind::kValue);
  EXPECT_EQ(kind_of([&] { pacer.end(1, 1.0); }), Kind::kState);
  EXPECT_EQ(kind_of([&] { pacer.abandon(1); }), Kind::kState);
  EXPECT_EQ(kind_of([&] { pacer.end_demand(1); }), Kind::kState);
  EXPECT_EQ(kind_of([&] { pacer.charge(1, -1.0); }), Kind::kValue);
  SharePacer::Options bad;
  bad.burst = 0.0;
  EXPECT_EQ(kind_of([&] { SharePacer wrong(clock, bad); }), Kind::kValue);
}

TEST(RuntimePacingShares, Threads) {
  SteadyClock clock;
  SharePacer pacer(clock);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) pacer.add(t, 0.25);  // before anybody asks about them
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        if (pacer.try_begin(t)) pacer.end(t, 1000.0);
        (void)pacer.stats((t + 1) % 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t t = 0; t < 4; ++t) {
    EXPECT_DOUBLE_EQ(pacer.stats(t).used, 1000.0 * static_cast<double>(pacer.stats(t).num_started));
    EXPECT_EQ(pacer.stats(t).num_in_flight, 0u);
  }
}

}  // namespace
}  // namespace gpk::runtime
