#include "core/memory.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "core/buffer.h"
#include "device/device_pool.h"
#include "device/pool_buffer.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

constexpr std::size_t kChunk = std::size_t{2} << 20;

class BufferTest : public CoreTest {
 protected:
  static runtime::Pool& pool() { return device::device_pool({DeviceKind::kCuda, 0}); }
  static std::shared_ptr<Stream> make_stream() {
    return Stream::create(kGpu, StreamPriority::kLow);
  }
  static unsigned char* bytes_of(const Buffer& buffer) {
    return static_cast<unsigned char*>(buffer.data());  // device memory is host memory here
  }
};
class DevicePoolTest : public BufferTest {
 protected:
  DevicePoolTest() { fake::set_devices({{.memory_bytes = std::size_t{1} << 30}}); }
};

TEST_F(DevicePoolTest, SmallBuffersShareMemoryAndAreReused) {
  void* first = Buffer::allocate(kGpu, 1000)->data();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0u);
  const auto second = Buffer::allocate(kGpu, 1020);  // the same size class
  EXPECT_EQ(second->data(), first);
  const auto third = Buffer::allocate(kGpu, 5000);
  EXPECT_EQ(fake::used_bytes(0), pool().stats().reserved_bytes);
  EXPECT_EQ(pool().stats().num_allocations, 3u);
  EXPECT_EQ(fake::num_calls("cuMemAlloc"), 0u);
}

TEST_F(DevicePoolTest, TrimGivesEverythingBack) {
  Buffer::allocate(kGpu, 3 * kChunk);
  Buffer::allocate(kGpu, 100);
  EXPECT_GE(fake::used_bytes(0), 3 * kChunk);
  pool().trim();
  EXPECT_EQ(fake::used_bytes(0), 0u);
  EXPECT_EQ(pool().stats().reserved_bytes, 0u);
}

TEST_F(DevicePoolTest, LimitInBytes) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "8M");
  const auto a = Buffer::allocate(kGpu, 2 * kChunk);
  EXPECT_EQ(pool().stats().quota_bytes, 4 * kChunk);
  const auto error = thrown<OutOfMemory>([] { Buffer::allocate(kGpu, 2 * kChunk + 1); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, 2 * kChunk + 1);
  EXPECT_EQ(error->numbers().used_bytes, 2 * kChunk);
  EXPECT_EQ(error->numbers().limit_bytes, 4 * kChunk);
  const auto b = Buffer::allocate(kGpu, 2 * kChunk);  // exactly the limit
  EXPECT_THROW(Buffer::allocate(kGpu, 1), OutOfMemory);
}

TEST_F(DevicePoolTest, LimitAsAPercentage) {
  fake::set_devices({{.memory_bytes = 10 * kChunk}});
  set_env("PYGPUKIT_MEMORY_LIMIT", "50%");
  EXPECT_EQ(pool().stats().quota_bytes, 5 * kChunk);
}

TEST_F(DevicePoolTest, FullDeviceGivesCachedMemoryOfOtherStreamsAway) {
  fake::set_devices({{.memory_bytes = 4 * kChunk}});
  const auto stream = make_stream();
  {
    const StreamScope scope(stream);
    Buffer::allocate(kGpu, 3 * kChunk);
  }
  const auto buffer = Buffer::allocate(kGpu, 4 * kChunk);
  EXPECT_NE(buffer->data(), nullptr);
  EXPECT_EQ(fake::used_bytes(0), 4 * kChunk);
}

TEST_F(DevicePoolTest, OutOfMemoryTellsAllNumbers) {
  fake::set_devices({{.memory_bytes = 4 * kChunk}});
  set_env("PYGPUKIT_MEMORY_LIMIT", "1G");
  const auto kept = Buffer::allocate(kGpu, kChunk);
  const auto error = thrown<OutOfMemory>([] { Buffer::allocate(kGpu, 4 * kChunk); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, 4 * kChunk);
  EXPECT_EQ(error->numbers().used_bytes, kChunk);
  EXPECT_EQ(error->numbers().limit_bytes, 1u << 30);
  EXPECT_CONTAINS(error->what(),
                  "allocate: out of memory: asked 8.00 MiB (8388608 bytes), used 2.00 MiB");
  EXPECT_EQ(pool().stats().used_bytes, kChunk);  // the failure left no trace
}

TEST_F(DevicePoolTest, AbsurdSizeIsOutOfMemory) {
  Context::get(0);
  const auto error = thrown<OutOfMemory>([] { Buffer::allocate(kGpu, ~std::size_t{0}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, ~std::size_t{0});
}

TEST_F(DevicePoolTest, OtherDriverErrorsAreCudaErrors) {
  Context::get(0);
  for (const char* call : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    pool().trim();  // so that every call is needed again
    fake::fail_next(call, cu::kInvalidValue);
    EXPECT_EQ(thrown<CudaError>([] { Buffer::allocate(kGpu, kChunk); })->call(), call);
    EXPECT_EQ(pool().stats().used_bytes, 0u);
  }
  EXPECT_NE(Buffer::allocate(kGpu, kChunk)->data(), nullptr);
}

TEST_F(DevicePoolTest, WithoutVirtualMemory) {
  fake::set_devices({{.virtual_memory = false}});
  const auto buffer = Buffer::allocate(kGpu, 3 * kChunk);
  bytes_of(*buffer)[3 * kChunk - 1] = 1;
  EXPECT_GE(fake::num_calls("cuMemAlloc"), 1u);
  EXPECT_FALSE(pool().set_evictable(device::pool_block(*buffer), true));
  EXPECT_THROW(pool().evict(device::pool_block(*buffer)), Error);
}

TEST_F(DevicePoolTest, EvictedMemoryComesBackBeforeItsNextUse) {
  expect_copy_stream();
  const auto stream = current_stream(kGpu);
  const auto buffer = Buffer::allocate(kGpu, 2 * kChunk);
  std::memset(bytes_of(*buffer), 42, 2 * kChunk);
  void* address = buffer->data();
  EXPECT_TRUE(pool().set_evictable(device::pool_block(*buffer), true));
  EXPECT_EQ(pool().evict(device::pool_block(*buffer)), 2 * kChunk);
  EXPECT_EQ(fake::used_bytes(0), pool().stats().reserved_bytes);
  EXPECT_EQ(pool().stats().used_bytes, 0u);
  const BufferUse use(buffer, stream);
  EXPECT_EQ(buffer->data(), address);
  EXPECT_EQ(bytes_of(*buffer)[0], 42);
  EXPECT_EQ(bytes_of(*buffer)[2 * kChunk - 1], 42);
}

TEST_F(DevicePoolTest, PressureEvictsTheLeastRecentlyUsed) {
  expect_copy_stream();
  set_env("PYGPUKIT_MEMORY_LIMIT", "8M");
  const auto stream = current_stream(kGpu);
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int i = 0; i < 6; ++i) {  // half as much again as there is
    buffers.push_back(Buffer::allocate(kGpu, kChunk));
    pool().set_evictable(device::pool_block(*buffers.back()), true);
    const BufferUse use(buffers.back(), stream);
    std::memset(bytes_of(*buffers.back()), i, kChunk);
    EXPECT_LE(fake::used_bytes(0), 4 * kChunk);
  }
  EXPECT_TRUE(pool().is_evicted(device::pool_block(*buffers[0])));
  EXPECT_FALSE(pool().is_evicted(device::pool_block(*buffers[5])));
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 6; ++i) {
      const BufferUse use(buffers[static_cast<std::size_t>(i)], stream);
      const unsigned char* bytes = bytes_of(*buffers[static_cast<std::size_t>(i)]);
      EXPECT_EQ(bytes[0], i);
      EXPECT_EQ(bytes[kChunk - 1], i);
      EXPECT_LE(fake::used_bytes(0), 4 * kChunk);
    }
  EXPECT_GT(pool().stats().num_restores, 6u);
}

TEST_F(DevicePoolTest, ExposedMemoryStays) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "4M");
  auto buffer = Buffer::allocate(kGpu, kChunk);
  pool().set_evictable(device::pool_block(*buffer), true);
  buffer->expose();
  buffer->expose();
  EXPECT_THROW(Buffer::allocate(kGpu, 2 * kChunk), OutOfMemory);
  EXPECT_FALSE(pool().is_evicted(device::pool_block(*buffer)));
  buffer.reset();
  EXPECT_NE(Buffer::allocate(kGpu, 2 * kChunk)->data(), nullptr);
}

TEST_F(DevicePoolTest, UsersPinsAreCounted) {
  expect_copy_stream();
  set_env("PYGPUKIT_MEMORY_LIMIT", "4M");
  const auto buffer = Buffer::allocate(kGpu, kChunk);
  pool().set_evictable(device::pool_block(*buffer), true);
  EXPECT_FALSE(buffer->release_hold());
  buffer->hold();
  buffer->hold();
  EXPECT_TRUE(buffer->release_hold());
  EXPECT_THROW(Buffer::allocate(kGpu, 2 * kChunk), OutOfMemory);
  EXPECT_TRUE(buffer->release_hold());
  EXPECT_FALSE(buffer->release_hold());
  EXPECT_NO_THROW(Buffer::allocate(kGpu, 2 * kChunk));
  EXPECT_TRUE(pool().is_evicted(device::pool_block(*buffer)));
}

TEST_F(DevicePoolTest, NothingIsEvictedWhileTheDeviceMayReadIt) {
  expect_copy_stream();
  set_env("PYGPUKIT_MEMORY_LIMIT", "8M");
  const auto busy = make_stream();
  const auto idle = Buffer::allocate(kGpu, 2 * kChunk);
  const auto used = Buffer::allocate(kGpu, 2 * kChunk);
  for (const auto& buffer : {used, idle}) {  // `used` is the older one
    pool().set_evictable(device::pool_block(*buffer), true);
    const BufferUse use(buffer, buffer == used ? busy : current_stream(kGpu));
  }
  fake::set_busy(busy->handle(), true);
  const auto more = Buffer::allocate(kGpu, 2 * kChunk);
  EXPECT_TRUE(pool().is_evicted(device::pool_block(*idle)));
  EXPECT_FALSE(pool().is_evicted(device::pool_block(*used)));
  fake::set_busy(busy->handle(), false);
}

TEST_F(DevicePoolTest, UsesBeforeTheMarkCountToo) {
  expect_copy_stream();
  set_env("PYGPUKIT_MEMORY_LIMIT", "8M");
  const auto busy = make_stream();
  const auto first = Buffer::allocate(kGpu, 2 * kChunk);
  const auto second = Buffer::allocate(kGpu, 2 * kChunk);
  {
    const BufferUse use(first, busy);
  }  // not evictable yet
  fake::set_busy(busy->handle(), true);
  pool().set_evictable(device::pool_block(*first), true);
  pool().set_evictable(device::pool_block(*second), true);
  const auto more = Buffer::allocate(kGpu, 2 * kChunk);
  EXPECT_FALSE(pool().is_evicted(device::pool_block(*first)));
  EXPECT_TRUE(pool().is_evicted(device::pool_block(*second)));
  fake::set_busy(busy->handle(), false);
}

TEST_F(DevicePoolTest, AnImpossibleRequestTakesNothing) {
  const auto held = Buffer::allocate(kGpu, kChunk);
  EXPECT_THROW(Buffer::allocate(kGpu, std::size_t{2} << 30), OutOfMemory);
  EXPECT_THROW(Buffer::allocate(kGpu, std::size_t{1} << 30), OutOfMemory);
  EXPECT_EQ(fake::used_bytes(0), kChunk);
}

TEST_F(DevicePoolTest, TheCollectorIsAskedBeforeGivingUp) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "4M");
  auto held = Buffer::allocate(kGpu, 2 * kChunk);
  device::set_collect_hook([&] { held.reset(); });
  EXPECT_NE(Buffer::allocate(kGpu, 2 * kChunk)->data(), nullptr);
  device::set_collect_hook(nullptr);
}

TEST_F(DevicePoolTest, EightThreads) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  Context::get(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t] {
      const StreamScope scope(make_stream());
      std::vector<std::shared_ptr<Buffer>> held;
      for (int i = 0; i < kRounds; ++i) {
        const auto bytes = static_cast<std::size_t>(1 + (i * 37 + t * 101) % 5000);
        held.push_back(Buffer::allocate(kGpu, bytes));
        std::memset(held.back()->data(), t, bytes);
        if (held.size() > 5) {
          const auto* first = static_cast<const unsigned char*>(held.front()->data());
          EXPECT_TRUE(std::all_of(first, first + held.front()->bytes(),
                                  [t](unsigned char byte) { return byte == t; }));
          held.erase(held.begin());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool().stats().used_bytes, 0u);
  EXPECT_EQ(pool().stats().num_allocations, std::size_t{kThreads} * kRounds);
}

TEST_F(BufferTest, BelongsToTheCurrentStream) {
  const auto stream = make_stream();
  void* first = nullptr;
  {
    const StreamScope scope(stream);
    first = Buffer::allocate(kGpu, 100)->data();
  }
  const auto elsewhere = Buffer::allocate(kGpu, 100);  // on the default stream
  EXPECT_NE(elsewhere->data(), first);
  const StreamScope scope(stream);
  EXPECT_EQ(Buffer::allocate(kGpu, 100)->data(), first);
}

TEST_F(BufferTest, KeepsItsStream) {
  auto stream = make_stream();
  std::shared_ptr<Buffer> buffer;
  {
    const StreamScope scope(stream);
    buffer = Buffer::allocate(kGpu, 100);
  }
  stream.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 1u);
  buffer.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 0u);
}

TEST_F(BufferTest, NotReusedWhileAnotherStreamUsesIt) {
  const auto home = make_stream();
  const auto other = make_stream();
  const StreamScope scope(home);
  auto buffer = Buffer::allocate(kGpu, kChunk);
  void* address = buffer->data();
  for (const auto& stream : {home, other, other, home, other}) buffer->mark_use(stream);
  EXPECT_TRUE(fake::stream_calls().empty());
  fake::set_busy(other->handle(), true);
  buffer.reset();
  const auto calls = fake::stream_calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].function, "cuEventRecord");
  EXPECT_EQ(calls[0].stream, other->handle());
  EXPECT_NE(Buffer::allocate(kGpu, kChunk)->data(), address);
  fake::set_busy(other->handle(), false);
  pool().trim();
  EXPECT_EQ(pool().stats().reserved_bytes, 0u);
}

TEST_F(BufferTest, FreeOnItsOwnStreamWaitsForNothing) {
  const auto stream = current_stream(kGpu);
  auto buffer = Buffer::allocate(kGpu, 100);
  buffer->mark_use(stream);
  buffer.reset();
  EXPECT_TRUE(fake::stream_calls().empty());
}

TEST_F(BufferTest, OrderBefore) {
  const auto home = make_stream();
  const auto user = make_stream();
  const auto reader = make_stream();
  const StreamScope scope(home);
  const auto buffer = Buffer::allocate(kGpu, 100);
  buffer->order_before(*home);
  EXPECT_TRUE(fake::stream_calls().empty());
  buffer->mark_use(user);
  buffer->order_before(*reader);
  std::map<std::string, std::vector<cu::Stream>> streams;
  for (const auto& call : fake::stream_calls()) streams[call.function].push_back(call.stream);
  EXPECT_EQ(streams["cuEventRecord"], (std::vector{home->handle(), user->handle()}));
  EXPECT_EQ(streams["cuStreamWaitEvent"], (std::vector{reader->handle(), reader->handle()}));
}

TEST_F(BufferTest, ManyThreadsMarkUses) {
  auto buffer = Buffer::allocate(kGpu, 100);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      const auto stream = make_stream();
      for (int i = 0; i < 50; ++i) buffer->mark_use(stream);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 8u);
  buffer.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 0u);
}

TEST_F(BufferTest, ZeroBytesNeedNoMemory) {
  for (const Device device : {kGpu, kCpu}) {
    const auto buffer = Buffer::allocate(device, 0);
    EXPECT_EQ(buffer->data(), nullptr);
    EXPECT_EQ(buffer->bytes(), 0u);
  }
  EXPECT_EQ(fake::num_calls("cuMemAlloc"), 0u);
}

TEST_F(BufferTest, OnTheCpu) {
  const auto buffer = Buffer::allocate(kCpu, 100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
  std::memset(buffer->data(), 1, 100);
  const auto stream = Stream::create(kCpu, StreamPriority::kLow);
  buffer->mark_use(stream);
  buffer->order_before(*stream);
  EXPECT_EQ(fake::num_calls("cuInit"), 0u);
}

TEST_F(BufferTest, WrappedMemoryKeepsItsOwner) {
  auto owner = std::make_shared<std::vector<char>>(16);
  const std::weak_ptr<std::vector<char>> watch = owner;
  void* data = owner->data();
  auto buffer = Buffer::wrap(kCpu, data, 16, std::move(owner));
  EXPECT_EQ(buffer->data(), data);
  EXPECT_FALSE(watch.expired());
  buffer.reset();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace gpk
