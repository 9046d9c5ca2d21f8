// Blocks and page-locked memory from the driver, and from the host on the CPU backend.
#include "core/block_device.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "fake_driver/core_fixture.h"
#include "runtime/error.h"

namespace gpk {
namespace {

class BlockDeviceTest : public CoreTest {};

TEST_F(BlockDeviceTest, BytesSurviveTheWayToTheHostAndBack) {
  for (const Device device : {kCpu, kGpu}) {
    const auto blocks = make_block_device(device);
    std::vector<unsigned char> bytes(1000);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    const std::uint64_t ptr = blocks->allocate(bytes.size());
    ASSERT_NE(ptr, 0u);
    blocks->copy_to_device(ptr, bytes.data(), bytes.size());
    void* host = blocks->allocate_host(bytes.size());
    ASSERT_NE(host, nullptr);
    blocks->copy_to_host(host, ptr, bytes.size());
    EXPECT_EQ(std::memcmp(host, bytes.data(), bytes.size()), 0);
    blocks->free_host(host, bytes.size());
    blocks->free(ptr, bytes.size());
  }
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), 0u);
  EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 0u);
}

TEST_F(BlockDeviceTest, CopiesWaitForEarlierWorkOfAllStreams) {
  const auto blocks = make_block_device(kGpu);
  const std::uint64_t ptr = blocks->allocate(16);
  const std::size_t before = fake::num_calls("cuCtxSynchronize");
  char bytes[16] = {};
  blocks->copy_to_host(bytes, ptr, sizeof bytes);
  EXPECT_EQ(fake::num_calls("cuCtxSynchronize"), before + 1);
  blocks->free(ptr, 16);
}

TEST_F(BlockDeviceTest, AFullDeviceIsNoErrorAndAnotherFailureIs) {
  const auto blocks = make_block_device(kGpu);
  fake::set_memory_bytes(0, 1024);
  EXPECT_EQ(blocks->allocate(std::size_t{1} << 20), 0u);
  fake::fail_next("cuMemHostAlloc", cu::kOutOfMemory);
  EXPECT_EQ(blocks->allocate_host(64), nullptr);
  fake::fail_next("cuMemAlloc", 1);
  EXPECT_THROW(blocks->allocate(64), CudaError);
}

TEST_F(BlockDeviceTest, APoolOnItGivesEverythingBack) {
  const runtime::ManualClock clock;
  const auto blocks = make_block_device(kGpu);
  {
    runtime::BlockPool pool(*blocks, clock, std::size_t{4} << 10, true);
    std::vector<runtime::BlockId> ids;
    for (int i = 0; i < 8; ++i) {
      ids.push_back(pool.allocate(1000));
      pool.write(ids.back(), &i, sizeof i);
      EXPECT_LE(fake::used_bytes(0), std::size_t{4} << 10);
    }
    for (int i = 0; i < 8; ++i) {
      int value = -1;
      pool.restore(ids[static_cast<std::size_t>(i)]);
      pool.read(ids[static_cast<std::size_t>(i)], &value, sizeof value);
      EXPECT_EQ(value, i);
    }
    // No memory on the device: the quota has room, the device has not.
    pool.clear();
    pool.trim();
    fake::fail_always("cuMemAlloc", cu::kOutOfMemory);
    EXPECT_THROW(pool.allocate(100), runtime::Error);
  }
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), 0u);
  EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 0u);
}

TEST_F(BlockDeviceTest, PinnedMemoryIsAligned) {
  for (const Device device : {kCpu, kGpu}) {
    const auto allocator = make_pinned_allocator(device);
    void* ptr = allocator->allocate(100, 256);
    ASSERT_NE(ptr, nullptr);
    std::memset(ptr, 1, 100);
    if (!device.is_cuda()) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ptr) % kMaxPinnedAlignment, 0u);
    }
    EXPECT_EQ(fake::num_live(fake::Kind::kPinned), device.is_cuda() ? 1u : 0u);
    allocator->free(ptr, 100);
  }
}

}  // namespace
}  // namespace gpk
