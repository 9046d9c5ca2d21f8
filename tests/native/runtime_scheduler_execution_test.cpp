#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/scheduler/execution_context.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;

TEST(RuntimeExecution, InitialisesOnce) {
  ExecutionContexts contexts;
  EXPECT_FALSE(contexts.stats().initialized);
  contexts.initialize(1, 4 * kGiB, 16 * kGiB);
  contexts.initialize(2, kGiB, kGiB);
  const ExecutionStats stats = contexts.stats();
  EXPECT_TRUE(stats.initialized);
  EXPECT_EQ(stats.device_id, 1);
  EXPECT_EQ(stats.device_total_memory_bytes, 4 * kGiB);
  EXPECT_EQ(stats.total_vram_budget_bytes, 4 * kGiB);  // not above the memory
  contexts.reset();
  EXPECT_FALSE(contexts.stats().initialized);
  contexts.create("a");
  EXPECT_EQ(contexts.stats().total_vram_budget_bytes, 8 * kGiB);
  EXPECT_THROW(ExecutionContexts().initialize(-1), Error);
}

TEST(RuntimeExecution, StreamIdsComeFromThePool) {
  ExecutionContexts contexts;
  EXPECT_EQ(contexts.stats().stream_pool_size, 8u);
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::uint32_t expected = i < 8 ? 7 - i : i;
    EXPECT_EQ(contexts.create("m" + std::to_string(i)).stream_id, expected);
  }
  EXPECT_EQ(contexts.stats().stream_pool_size, 0u);
  EXPECT_TRUE(contexts.destroy("m3"));
  EXPECT_FALSE(contexts.destroy("m3"));
  EXPECT_EQ(contexts.stats().stream_pool_size, 1u);
  EXPECT_EQ(contexts.create("again").stream_id, 4u);
  EXPECT_EQ(contexts.ids().back(), "again");
  EXPECT_EQ(contexts.stats().context_count, 10u);
}

TEST(RuntimeExecution, IdsAreUnique) {
  ExecutionContexts contexts;
  contexts.create("a");
  try {
    contexts.create("a");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kState);
  }
  EXPECT_THROW(contexts.create(""), Error);
  EXPECT_FALSE(contexts.get("b"));
  EXPECT_EQ(contexts.stats().context_count, 1u);
}

TEST(RuntimeExecution, BudgetsAreKept) {
  ExecutionContexts contexts;
  contexts.initialize(0, 1000, 500);
  contexts.create("a", 300);
  contexts.create("b");
  EXPECT_TRUE(contexts.track_allocation("a", 1, 200));
  EXPECT_FALSE(contexts.track_allocation("a", 2, 101));
  EXPECT_TRUE(contexts.track_allocation("a", 2, 100));
  EXPECT_FALSE(contexts.track_allocation("b", 1, 201));  // the budget of all
  EXPECT_TRUE(contexts.track_allocation("b", 1, 200));
  EXPECT_THROW(contexts.track_allocation("b", 1, 0), Error);
  EXPECT_THROW(contexts.track_allocation("c", 1, 0), Error);
  const auto a = contexts.get("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->used_vram_bytes, 300u);
  EXPECT_EQ(a->available_vram_bytes, 0u);
  EXPECT_EQ(a->buffer_count, 2u);
  EXPECT_EQ(contexts.stats().available_vram_bytes, 0u);
  EXPECT_EQ(contexts.track_deallocation("a", 1), 200u);
  EXPECT_THROW(contexts.track_deallocation("a", 1), Error);
  EXPECT_EQ(contexts.get("b")->available_vram_bytes, 200u);
  contexts.destroy("a");
  contexts.destroy("b");
  EXPECT_EQ(contexts.stats().used_vram_bytes, 0u);
}

TEST(RuntimeExecution, Sessions) {
  ExecutionContexts contexts;
  contexts.create("a");
  contexts.create("b");
  const auto state = [&](const char* id) { return contexts.get(id)->state; };
  contexts.begin_session();
  EXPECT_TRUE(contexts.is_session_active());
  contexts.create("late");
  EXPECT_EQ(state("a"), ExecutionState::kRunning);
  EXPECT_EQ(state("late"), ExecutionState::kIdle);
  contexts.begin_session();
  contexts.end_session();
  EXPECT_EQ(state("b"), ExecutionState::kRunning);
  contexts.end_session();
  EXPECT_EQ(state("b"), ExecutionState::kIdle);
  EXPECT_FALSE(contexts.is_session_active());
  EXPECT_THROW(contexts.end_session(), Error);

  contexts.begin_session("a");
  EXPECT_TRUE(contexts.is_session_active("a"));
  EXPECT_FALSE(contexts.is_session_active("b"));
  EXPECT_FALSE(contexts.pause("b"));
  EXPECT_TRUE(contexts.pause("a"));
  EXPECT_STREQ(to_string(state("a")), "PAUSED");
  EXPECT_FALSE(contexts.pause("a"));
  EXPECT_TRUE(contexts.resume("a"));
  contexts.end_session("a");
  EXPECT_STREQ(to_string(state("a")), "IDLE");
  EXPECT_THROW(contexts.begin_session("none"), Error);
}

}  // namespace
}  // namespace gpk::runtime
