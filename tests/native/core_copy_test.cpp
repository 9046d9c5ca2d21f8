// Pinned host memory, and copies between host and devices.
#include <cstring>

#include "base/error.h"
#include "core/buffer.h"
#include "core/memory.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class PinnedTest : public CoreTest {};
class CopyTest : public CoreTest {};

TEST_F(PinnedTest, OnAGpu) {
  auto memory = PinnedMemory::allocate(kGpu, 100);
  EXPECT_EQ(memory->bytes(), 100u);
  EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 1u);
  EXPECT_TRUE(is_pinned(Context::get(0), memory->data()));
  EXPECT_TRUE(is_pinned(Context::get(0), static_cast<char*>(memory->data()) + 99));
  const int local = 0;
  EXPECT_FALSE(is_pinned(Context::get(0), &local));
  memory.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 0u);
}

TEST_F(PinnedTest, DeviceMemoryIsNotPinned) {
  const auto buffer = Buffer::allocate(kGpu, 16);
  EXPECT_FALSE(is_pinned(Context::get(0), buffer->data()));
}

TEST_F(PinnedTest, OnTheCpuAndEmpty) {
  const auto memory = PinnedMemory::allocate(kCpu, 100);
  std::memset(memory->data(), 1, 100);
  EXPECT_EQ(PinnedMemory::allocate(kCpu, 0)->data(), nullptr);
  EXPECT_EQ(PinnedMemory::allocate(kGpu, 0)->data(), nullptr);
  EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 0u);
}

TEST_F(PinnedTest, OutOfMemory) {
  Context::get(0);
  fake::fail_next("cuMemHostAlloc", cu::kOutOfMemory);
  const auto error = thrown<OutOfMemory>([] { PinnedMemory::allocate(kGpu, 4096); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, 4096u);
  EXPECT_CONTAINS(error->what(), "pinned memory");
}

TEST_F(CopyTest, HostAndDevice) {
  const auto a = Buffer::allocate(kGpu, 16);
  const auto b = Buffer::allocate(kGpu, 16);
  Stream& stream = *current_stream(kGpu);
  const char text[16] = "a copy of bytes";
  char back[16] = {};
  copy_to_device(a->device_ptr(), text, 16, stream);
  copy_on_device(b->device_ptr(), a->device_ptr(), 16, stream);
  copy_to_host(back, b->device_ptr(), 16, stream);
  stream.synchronize();
  EXPECT_STREQ(back, text);
}

TEST_F(CopyTest, NothingToCopyCallsNothing) {
  Stream& stream = *current_stream(kGpu);
  copy_to_device(0, nullptr, 0, stream);
  copy_to_host(nullptr, 0, 0, stream);
  copy_on_device(0, 0, 0, stream);
  copy_peer(0, Context::get(0), 0, Context::get(0), 0, stream);
  EXPECT_TRUE(fake::stream_calls().empty());
}

TEST_F(CopyTest, BetweenDevices) {
  fake::set_devices({{}, {}});
  const Device other{DeviceKind::kCuda, 1};
  const auto here = Buffer::allocate(kGpu, 8);
  const auto there = Buffer::allocate(other, 8);
  const std::uint64_t value = 0x0123456789abcdef;
  std::uint64_t back = 0;
  copy_to_device(here->device_ptr(), &value, 8, *current_stream(kGpu));
  copy_peer(there->device_ptr(), Context::get(1), here->device_ptr(), Context::get(0), 8,
            *current_stream(other));
  copy_to_host(&back, there->device_ptr(), 8, *current_stream(other));
  EXPECT_EQ(back, value);
  EXPECT_THROW(copy_peer(there->device_ptr(), Context::get(0), here->device_ptr(), Context::get(1),
                         8, *current_stream(kGpu)),
               CudaError);
}

TEST_F(CopyTest, BadAddressIsACudaErrorNamingTheCall) {
  char byte = 0;
  const auto error =
      thrown<CudaError>([&] { copy_to_host(&byte, 4096, 1, *current_stream(kGpu)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->call(), "cuMemcpyDtoHAsync");
}

}  // namespace
}  // namespace gpk
