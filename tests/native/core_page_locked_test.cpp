// Pinned host memory: who owns its pages, and that all of it is released.
#include "core/page_locked.h"

#include <cstdint>
#include <cstring>

#include "core/context.h"
#include "core/memory.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

constexpr std::size_t kSmall = 4096;
constexpr std::size_t kMedium = std::size_t{3} << 20;
constexpr std::size_t kLarge = std::size_t{65} << 20;

class PageLockedTest : public CoreTest {
 protected:
  Context& context_ = Context::get(0);

  void expect_freed() { EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 0u); }
};

TEST_F(PageLockedTest, MediumPiecesHavePagesOfTheirOwn) {
  const auto before = fake::num_calls("cuMemHostAlloc");
  void* data = allocate_page_locked(context_, kMedium);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 4096, 0u);
  EXPECT_TRUE(is_pinned(context_, data));
  std::memset(data, 1, kMedium);
  EXPECT_EQ(fake::num_calls("cuMemHostAlloc"), before);
  EXPECT_EQ(fake::num_calls("cuMemHostRegister"), 1u);
  free_page_locked(context_, data);
  EXPECT_EQ(fake::num_calls("cuMemHostUnregister"), 1u);
  expect_freed();
}

TEST_F(PageLockedTest, SmallAndLargePiecesAreTheDrivers) {
  for (const std::size_t bytes : {kSmall, kLarge}) {
    void* data = allocate_page_locked(context_, bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_TRUE(is_pinned(context_, data));
    free_page_locked(context_, data);
  }
  EXPECT_EQ(fake::num_calls("cuMemHostRegister"), 0u);
  expect_freed();
}

TEST_F(PageLockedTest, TheDriverIsAskedWhenPagesCannotBeLocked) {
  fake::fail_next("cuMemHostRegister", cu::kOutOfMemory);
  void* data = allocate_page_locked(context_, kMedium);
  ASSERT_NE(data, nullptr);
  free_page_locked(context_, data);
  EXPECT_EQ(fake::num_calls("cuMemHostUnregister"), 0u);
  expect_freed();
}

TEST_F(PageLockedTest, NoneLeftIsNull) {
  fake::fail_next("cuMemHostRegister", cu::kOutOfMemory);
  fake::fail_next("cuMemHostAlloc", cu::kOutOfMemory);
  EXPECT_EQ(allocate_page_locked(context_, kMedium), nullptr);
  expect_freed();
}

}  // namespace
}  // namespace gpk
