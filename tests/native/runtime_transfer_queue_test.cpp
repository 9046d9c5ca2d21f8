#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/transfer/transfer.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

using Type = TransferType;
using State = TransferState;

std::vector<TransferId> ids_of(const std::vector<TransferOp>& ops) {
  std::vector<TransferId> ids;
  for (const TransferOp& op : ops) ids.push_back(op.id);
  return ids;
}

TEST(RuntimeTransferQueue, IdsStartAtOneAndAreNotReused) {
  ManualClock clock;
  TransferQueue queue(clock);
  EXPECT_EQ(queue.enqueue(Type::kH2D, 1, 2, 3), 1u);
  EXPECT_EQ(queue.enqueue(Type::kD2H, 1, 2, 3), 2u);
  queue.clear();
  EXPECT_FALSE(queue.get(1).has_value());
  EXPECT_EQ(queue.enqueue(Type::kD2D, 1, 2, 3), 3u);
}

TEST(RuntimeTransferQueue, Names) {
  for (const Type type : {Type::kH2D, Type::kD2H, Type::kD2D})
    EXPECT_EQ(transfer_type_from_name(to_string(type)), type);
  for (const char* wrong : {"", "H2D", "h2h", "h2d "})
    EXPECT_EQ(kind_of([&] { (void)transfer_type_from_name(wrong); }), Error::Kind::kValue);
  EXPECT_EQ(transfer_stream(Type::kD2D), 0);
  EXPECT_EQ(transfer_stream(Type::kH2D), 1);
  EXPECT_EQ(transfer_stream(Type::kD2H), 2);
  EXPECT_STREQ(to_string(State::kInProgress), "InProgress");
}

TEST(RuntimeTransferQueue, ReadyByStreamThenPriorityThenFirstCome) {
  ManualClock clock;
  TransferQueue queue(clock, 3);
  const auto d2d = queue.enqueue(Type::kD2D, 1, 2, 3, 9);
  const auto d2h = queue.enqueue(Type::kD2H, 1, 2, 3);
  const auto low = queue.enqueue(Type::kH2D, 1, 2, 3, -1);
  const auto first = queue.enqueue(Type::kH2D, 1, 2, 3);
  const auto second = queue.enqueue(Type::kH2D, 1, 2, 3);
  const auto urgent = queue.enqueue(Type::kH2D, 1, 2, 3, 5);
  EXPECT_EQ(ids_of(queue.get_ready(2)), (std::vector<TransferId>{urgent, first}));
  EXPECT_EQ(ids_of(queue.get_ready(9)), (std::vector<TransferId>{second, d2h, d2d}));
  EXPECT_TRUE(queue.get_ready(9).empty());  // three are in progress on the H2D stream
  EXPECT_EQ(queue.in_progress(1), (std::vector<TransferId>{first, second, urgent}));
  EXPECT_TRUE(queue.complete(first));
  EXPECT_EQ(ids_of(queue.get_ready(9)), (std::vector<TransferId>{low}));
  EXPECT_EQ(kind_of([&] { (void)queue.in_progress(3); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { TransferQueue none(clock, 0); }), Error::Kind::kValue);
}

// Every call on every state: what is allowed, and where it leads.
TEST(RuntimeTransferQueue, StateMachine) {
  ManualClock clock;
  struct Call {
    const char* name;
    bool (*run)(TransferQueue&, TransferId);
    State from;
    State to;
  };
  const Call calls[] = {
      {"start", [](TransferQueue& q, TransferId id) { return q.start(id); }, State::kQueued,
       State::kInProgress},
      {"complete", [](TransferQueue& q, TransferId id) { return q.complete(id); },
       State::kInProgress, State::kCompleted},
      {"fail", [](TransferQueue& q, TransferId id) { return q.fail(id, "broken"); },
       State::kInProgress, State::kFailed},
      {"cancel", [](TransferQueue& q, TransferId id) { return q.cancel(id); }, State::kQueued,
       State::kCancelled},
      {"abort", [](TransferQueue& q, TransferId id) { return q.abort(id); }, State::kInProgress,
       State::kCancelled},
  };
  for (const State state :
       {State::kQueued, State::kInProgress, State::kCompleted, State::kFailed, State::kCancelled}) {
    for (const Call& call : calls) {
      TransferQueue queue(clock);
      const TransferId id = queue.enqueue(Type::kH2D, 1, 2, 3);
      if (state != State::kQueued && state != State::kCancelled) queue.start(id);
      if (state == State::kCompleted) queue.complete(id);
      if (state == State::kFailed) queue.fail(id, "first");
      if (state == State::kCancelled) queue.cancel(id);
      ASSERT_EQ(queue.get(id)->state, state);
      EXPECT_EQ(call.run(queue, id), state == call.from) << call.name << to_string(state);
      EXPECT_EQ(queue.get(id)->state, state == call.from ? call.to : state) << call.name;
      EXPECT_EQ(queue.has_pending_work(), !is_terminal(queue.get(id)->state));
      EXPECT_FALSE(call.run(queue, 99));
    }
  }
}

TEST(RuntimeTransferQueue, Times) {
  ManualClock clock;
  TransferQueue queue(clock);
  const TransferId id = queue.enqueue(Type::kD2H, 1, 2, 4'000'000);
  EXPECT_EQ(queue.get(id)->wait_time_s(), 0.0);
  clock.advance_ns(2'000'000);
  queue.start(id);
  clock.advance_ns(1'000'000);
  EXPECT_EQ(queue.get(id)->duration_s(), 0.0);
  EXPECT_EQ(queue.get(id)->bandwidth_gb_s(), 0.0);
  queue.complete(id);
  EXPECT_DOUBLE_EQ(queue.get(id)->wait_time_s(), 0.002);
  EXPECT_DOUBLE_EQ(queue.get(id)->duration_s(), 0.001);
  EXPECT_DOUBLE_EQ(queue.get(id)->bandwidth_gb_s(), 4.0);
  const TransferStats stats = queue.stats();
  EXPECT_EQ(stats.of(Type::kD2H).completed_bytes, 4'000'000u);
  EXPECT_EQ(stats.of(Type::kD2H).wait_ns, 2'000'000);
  EXPECT_DOUBLE_EQ(stats.of(Type::kD2H).bandwidth_gb_s(), 4.0);
  EXPECT_DOUBLE_EQ(stats.total().bandwidth_gb_s(), 4.0);
  EXPECT_EQ(stats.of(Type::kH2D).bandwidth_gb_s(), 0.0);
}

TEST(RuntimeTransferQueue, GcAndTake) {
  ManualClock clock;
  TransferQueue queue(clock);
  const auto done = queue.enqueue(Type::kH2D, 1, 2, 3);
  const auto failed = queue.enqueue(Type::kH2D, 1, 2, 3);
  const auto live = queue.enqueue(Type::kH2D, 1, 2, 3);
  queue.start(done);
  queue.complete(done);
  queue.start(failed);
  queue.fail(failed, "no link");
  EXPECT_FALSE(queue.take(live).has_value());
  EXPECT_EQ(queue.take(failed)->error, "no link");
  EXPECT_FALSE(queue.take(failed).has_value());
  EXPECT_EQ(queue.gc(), 1u);
  EXPECT_EQ(queue.gc(), 0u);
  EXPECT_FALSE(queue.get(done).has_value());
  EXPECT_TRUE(queue.get(live).has_value());
  EXPECT_EQ(queue.stats().num_failed, 1u);
}

// Random calls against a plain list.
TEST(RuntimeTransferQueue, AgainstModel) {
  for (unsigned seed = 0; seed < rounds(20); ++seed) {
    std::mt19937 random(seed);
    ManualClock clock;
    const std::size_t limit = 1 + seed % 4;
    TransferQueue queue(clock, limit);
    std::vector<TransferOp> model;
    const auto in_progress = [&](Type type) {
      return static_cast<std::size_t>(std::count_if(
          model.begin(), model.end(),
          [&](const TransferOp& op) { return op.type == type && op.state == State::kInProgress; }));
    };
    for (int step = 0; step < 600; ++step) {
      clock.advance_ns(static_cast<std::int64_t>(random() % 50));
      const unsigned call = random() % 8;
      if (call < 3) {
        TransferOp op;
        op.type = static_cast<Type>(random() % 3);
        op.priority = static_cast<int>(random() % 3);
        op.size_bytes = random() % 100;
        op.id = queue.enqueue(op.type, 1, 2, op.size_bytes, op.priority);
        model.push_back(op);
      } else if (call == 3) {
        const std::size_t max = random() % 4;
        std::vector<TransferId> expected;
        for (const Type type : {Type::kH2D, Type::kD2H, Type::kD2D}) {
          while (expected.size() < max && in_progress(type) < limit) {
            TransferOp* best = nullptr;
            for (TransferOp& op : model)
              if (op.type == type && op.state == State::kQueued &&
                  (best == nullptr || op.priority > best->priority))
                best = &op;
            if (best == nullptr) break;
            best->state = State::kInProgress;
            expected.push_back(best->id);
          }
        }
        ASSERT_EQ(ids_of(queue.get_ready(max)), expected);
      } else if (!model.empty()) {
        TransferOp& op = model[random() % model.size()];
        const bool queued = op.state == State::kQueued;
        const bool running = op.state == State::kInProgress;
        switch (call) {
          case 4:
            ASSERT_EQ(queue.complete(op.id), running);
            if (running) op.state = State::kCompleted;
            break;
          case 5:
            ASSERT_EQ(queue.fail(op.id), running);
            if (running) op.state = State::kFailed;
            break;
          case 6:
            ASSERT_EQ(queue.cancel(op.id), queued);
            if (queued) op.state = State::kCancelled;
            break;
          default:
            ASSERT_EQ(queue.start(op.id), queued);
            if (queued) op.state = State::kInProgress;
        }
      }
      TransferStats::Direction sum = queue.stats().total();
      std::size_t queued_bytes = 0;
      for (const TransferOp& op : model)
        if (op.state == State::kQueued) queued_bytes += op.size_bytes;
      ASSERT_EQ(sum.queued_bytes, queued_bytes);
    }
    for (const TransferOp& op : model) EXPECT_EQ(queue.get(op.id)->state, op.state);
    EXPECT_EQ(queue.stats().total().num_enqueued, model.size());
  }
}

TEST(RuntimeTransferQueue, Threads) {
  SteadyClock clock;
  TransferQueue queue(clock, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&queue, t] {
      for (int i = 0; i < 200; ++i) {
        queue.enqueue(static_cast<Type>(i % 3), 1, 2, 10, t);
        for (const TransferOp& op : queue.get_ready(3)) queue.complete(op.id);
        if (i % 50 == 0) queue.gc();
      }
    });
  for (std::thread& thread : threads) thread.join();
  while (queue.has_pending_work())
    for (const TransferOp& op : queue.get_ready(8)) queue.complete(op.id);
  EXPECT_EQ(queue.stats().total().num_completed, 800u);
  EXPECT_EQ(queue.stats().total().num_queued, 0u);
}

}  // namespace
}  // namespace gpk::runtime
