#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/transfer/transfer_engine.h"
#include "runtime_transfer_fake.h"

namespace gpk::runtime {
namespace {

using namespace transfer_test;

class RuntimeTransferProperty : public TransferEngineTest {};

// Random submissions, cancellations and pumps. Every chunk that starts is of the first transfer in
// line; all bytes are right; nothing is left.
TEST_F(RuntimeTransferProperty, AgainstModel) {
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
TEST_F(RuntimeTransferProperty, AgainstModelWithFaults) {
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

class RuntimeTransferThreads : public TransferEngineTest,
                               public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Background, RuntimeTransferThreads, ::testing::Bool());

// With threads of the engine, and with waiting threads alone, which hand the work over.
TEST_P(RuntimeTransferThreads, ManyUsers) {
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

}  // namespace
}  // namespace gpk::runtime
