// The fake driver's virtual memory keeps the rules that the pool relies on.
#include <cstring>

#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

constexpr std::size_t kChunk = std::size_t{2} << 20;

class VirtualMemoryTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    Context::get(0).make_current();
    properties_.type = cu::kMemoryPinned;
    properties_.location = {cu::kLocationDevice, 0};
    access_ = {properties_.location, cu::kAccessReadWrite};
  }
  cu::MemoryHandle create() {
    cu::MemoryHandle handle = 0;
    EXPECT_EQ(driver().cuMemCreate(&handle, kChunk, &properties_, 0), cu::kSuccess);
    return handle;
  }
  static cu::DevicePtr reserve(std::size_t chunks) {
    cu::DevicePtr range = 0;
    EXPECT_EQ(driver().cuMemAddressReserve(&range, chunks * kChunk, 0, 0, 0), cu::kSuccess);
    return range;
  }
  static unsigned char* bytes_at(cu::DevicePtr ptr) {
    return reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(ptr));
  }

  cu::MemoryProperties properties_{};
  cu::MemoryAccess access_{};
};

TEST_F(VirtualMemoryTest, BytesStayWithTheirMemoryWhereverItIsMapped) {
  const cu::DevicePtr range = reserve(2);
  EXPECT_EQ(range % kChunk, 0u);
  const cu::MemoryHandle handle = create();
  ASSERT_EQ(driver().cuMemMap(range, kChunk, 0, handle, 0), cu::kSuccess);
  ASSERT_EQ(driver().cuMemSetAccess(range, kChunk, &access_, 1), cu::kSuccess);
  std::memset(bytes_at(range), 42, kChunk);
  ASSERT_EQ(driver().cuMemUnmap(range, kChunk), cu::kSuccess);
  ASSERT_EQ(driver().cuMemMap(range + kChunk, kChunk, 0, handle, 0), cu::kSuccess);
  ASSERT_EQ(driver().cuMemSetAccess(range + kChunk, kChunk, &access_, 1), cu::kSuccess);
  EXPECT_EQ(bytes_at(range + kChunk)[kChunk - 1], 42);
  EXPECT_EQ(driver().cuMemUnmap(range + kChunk, kChunk), cu::kSuccess);
  EXPECT_EQ(driver().cuMemRelease(handle), cu::kSuccess);
  EXPECT_EQ(driver().cuMemAddressFree(range, 2 * kChunk), cu::kSuccess);
  EXPECT_EQ(fake::used_bytes(0), 0u);
}

TEST_F(VirtualMemoryTest, MemoryCountsWhenItIsMadeNotWhenAddressesAreReserved) {
  fake::set_memory_bytes(0, 3 * kChunk);
  const cu::DevicePtr range = reserve(1000);
  EXPECT_EQ(fake::used_bytes(0), 0u);
  const cu::MemoryHandle handles[] = {create(), create(), create()};
  EXPECT_EQ(fake::used_bytes(0), 3 * kChunk);
  cu::MemoryHandle more = 0;
  EXPECT_EQ(driver().cuMemCreate(&more, kChunk, &properties_, 0), cu::kOutOfMemory);
  for (const cu::MemoryHandle handle : handles)
    EXPECT_EQ(driver().cuMemRelease(handle), cu::kSuccess);
  EXPECT_EQ(driver().cuMemAddressFree(range, 1000 * kChunk), cu::kSuccess);
}

TEST_F(VirtualMemoryTest, RefusesWhatTheDriverRefuses) {
  const cu::DevicePtr range = reserve(2);
  const cu::MemoryHandle handle = create();
  EXPECT_EQ(driver().cuMemMap(range + 512, kChunk, 0, handle, 0), cu::kInvalidValue);
  EXPECT_EQ(driver().cuMemMap(range + 2 * kChunk, kChunk, 0, handle, 0), cu::kInvalidValue);
  ASSERT_EQ(driver().cuMemMap(range, kChunk, 0, handle, 0), cu::kSuccess);
  EXPECT_EQ(driver().cuMemMap(range, kChunk, 0, handle, 0), cu::kInvalidValue);
  EXPECT_EQ(driver().cuMemSetAccess(range, 2 * kChunk, &access_, 1), cu::kInvalidValue);
  unsigned char byte = 0;  // mapped, but not accessible yet
  EXPECT_EQ(driver().cuMemcpyDtoHAsync(&byte, range, 1, nullptr), cu::kInvalidValue);
  EXPECT_EQ(driver().cuMemRelease(handle), cu::kInvalidValue);
  EXPECT_EQ(driver().cuMemAddressFree(range, 2 * kChunk), cu::kInvalidValue);
  EXPECT_EQ(driver().cuMemUnmap(range, kChunk), cu::kSuccess);
  EXPECT_EQ(driver().cuMemRelease(handle), cu::kSuccess);
  EXPECT_EQ(driver().cuMemRelease(handle), cu::kInvalidValue);
  EXPECT_EQ(driver().cuMemAddressFree(range, 2 * kChunk), cu::kSuccess);
}

}  // namespace
}  // namespace gpk
