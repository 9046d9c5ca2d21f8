#include "core/memory.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/buffer.h"
#include "core/error.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class AllocatorTest : public CoreTest {
 protected:
  static Allocator& allocator() { return *Context::get(0).allocator(); }
  static std::shared_ptr<Stream> make_stream() {
    return Stream::create(kGpu, StreamPriority::kLow);
  }
  static std::size_t num_blocks() { return fake::num_live(fake::Kind::kMemory); }
};
class BufferTest : public AllocatorTest {};

TEST_F(AllocatorTest, ReusesOnTheSameStream) {
  const cu::DevicePtr first = allocator().allocate(1000, nullptr);
  EXPECT_EQ(first % 256, 0u);
  allocator().free(first, 1000, nullptr);
  EXPECT_EQ(num_blocks(), 1u);
  const cu::DevicePtr second = allocator().allocate(1020, nullptr);  // the same size class
  EXPECT_EQ(second, first);
  EXPECT_EQ(fake::num_calls("cuMemAlloc"), 1u);
  EXPECT_EQ(allocator().stats().num_allocations, 2u);
  EXPECT_EQ(allocator().stats().num_reuses, 1u);
  allocator().free(second, 1020, nullptr);
}

TEST_F(AllocatorTest, DoesNotReuseAcrossStreams) {
  const auto stream = make_stream();
  const cu::DevicePtr first = allocator().allocate(1000, nullptr);
  allocator().free(first, 1000, nullptr);
  const cu::DevicePtr second = allocator().allocate(1000, stream->handle());
  EXPECT_NE(second, first);
  EXPECT_EQ(allocator().stats().num_reuses, 0u);
  allocator().free(second, 1000, stream->handle());
}

TEST_F(AllocatorTest, DoesNotReuseForAnotherSize) {
  const cu::DevicePtr small = allocator().allocate(512, nullptr);
  allocator().free(small, 512, nullptr);
  const cu::DevicePtr large = allocator().allocate(513, nullptr);
  EXPECT_NE(large, small);
  allocator().free(large, 513, nullptr);
}

TEST_F(AllocatorTest, SizeClassesHoldTheRequestWithLittleWaste) {
  for (const std::size_t bytes : {1ul, 511ul, 512ul, 513ul, 640ul, 641ul, 4099ul, 65536ul, 65537ul,
                                  (1ul << 20) + 1, (64ul << 20) + 1}) {
    const cu::DevicePtr ptr = allocator().allocate(bytes, nullptr);
    const std::size_t rounded = allocator().stats().used_bytes;
    EXPECT_GE(rounded, bytes);
    EXPECT_LE(rounded, std::max<std::size_t>(512, bytes + bytes / 4)) << bytes;
    EXPECT_EQ(fake::used_bytes(0), rounded);
    allocator().free(ptr, bytes, nullptr);
    EXPECT_EQ(allocator().trim(), rounded);
  }
}

TEST_F(AllocatorTest, Stats) {
  const cu::DevicePtr a = allocator().allocate(512, nullptr);
  const cu::DevicePtr b = allocator().allocate(1024, nullptr);
  allocator().free(a, 512, nullptr);
  AllocatorStats stats = allocator().stats();
  EXPECT_EQ(stats.used_bytes, 1024u);
  EXPECT_EQ(stats.cached_bytes, 512u);
  EXPECT_EQ(stats.largest_cached_bytes, 512u);
  EXPECT_EQ(stats.peak_used_bytes, 1536u);
  EXPECT_EQ(stats.limit_bytes, 0u);
  allocator().free(b, 1024, nullptr);
  EXPECT_EQ(allocator().stats().largest_cached_bytes, 1024u);
  EXPECT_EQ(allocator().trim(), 1536u);
  EXPECT_EQ(allocator().trim(), 0u);
  stats = allocator().stats();
  EXPECT_EQ(stats.used_bytes, 0u);
  EXPECT_EQ(stats.cached_bytes, 0u);
  EXPECT_EQ(stats.peak_used_bytes, 1536u);
  EXPECT_EQ(num_blocks(), 0u);
}

TEST_F(AllocatorTest, ForgottenStreamKeepsNothing) {
  auto stream = make_stream();
  const cu::Stream handle = stream->handle();
  allocator().free(allocator().allocate(600, handle), 600, handle);
  EXPECT_EQ(num_blocks(), 1u);
  stream.reset();
  EXPECT_EQ(num_blocks(), 0u);
  EXPECT_EQ(allocator().stats().cached_bytes, 0u);
}

// The handle of a stream that another library destroys may come back as another stream.
TEST_F(AllocatorTest, ForgottenForeignStreamKeepsNothing) {
  auto made = make_stream();
  auto foreign = Stream::wrap(kGpu, made->handle_value(), nullptr);
  allocator().free(allocator().allocate(600, foreign->handle()), 600, foreign->handle());
  foreign.reset();
  EXPECT_EQ(allocator().stats().cached_bytes, 0u);
}

TEST_F(AllocatorTest, LimitInBytes) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "4K");
  const cu::DevicePtr a = allocator().allocate(2048, nullptr);
  EXPECT_EQ(allocator().stats().limit_bytes, 4096u);
  const auto error = thrown<OutOfMemory>([] { allocator().allocate(2049, nullptr); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, 2049u);
  EXPECT_EQ(error->numbers().used_bytes, 2048u);
  EXPECT_EQ(error->numbers().limit_bytes, 4096u);
  const cu::DevicePtr b = allocator().allocate(2048, nullptr);  // exactly the limit
  EXPECT_THROW(allocator().allocate(1, nullptr), OutOfMemory);
  allocator().free(a, 2048, nullptr);
  allocator().free(b, 2048, nullptr);
}

TEST_F(AllocatorTest, LimitGivesCachedMemoryBackFirst) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "4K");
  allocator().free(allocator().allocate(2048, nullptr), 2048, nullptr);
  const cu::DevicePtr ptr = allocator().allocate(4096, nullptr);
  EXPECT_EQ(fake::used_bytes(0), 4096u);
  allocator().free(ptr, 4096, nullptr);
}

TEST_F(AllocatorTest, LimitAsAPercentage) {
  fake::set_devices({{.memory_bytes = 100 << 10}});
  set_env("PYGPUKIT_MEMORY_LIMIT", "50%");
  EXPECT_EQ(allocator().stats().limit_bytes, 50u << 10);
}

TEST_F(AllocatorTest, FullDeviceTrimsAndTriesAgain) {
  fake::set_devices({{.memory_bytes = 8192}});
  const auto stream = make_stream();
  allocator().free(allocator().allocate(4096, stream->handle()), 4096, stream->handle());
  const cu::DevicePtr ptr = allocator().allocate(8192, nullptr);
  EXPECT_NE(ptr, 0u);
  EXPECT_EQ(fake::num_calls("cuMemAlloc"), 3u);
  EXPECT_EQ(allocator().stats().cached_bytes, 0u);
  allocator().free(ptr, 8192, nullptr);
}

TEST_F(AllocatorTest, OutOfMemoryTellsAllNumbers) {
  fake::set_devices({{.memory_bytes = 8192}});
  set_env("PYGPUKIT_MEMORY_LIMIT", "1G");
  const cu::DevicePtr kept = allocator().allocate(2048, nullptr);
  const auto error = thrown<OutOfMemory>([] { allocator().allocate(8000, nullptr); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, 8000u);
  EXPECT_EQ(error->numbers().used_bytes, 2048u);
  EXPECT_EQ(error->numbers().cached_bytes, 0u);
  EXPECT_EQ(error->numbers().largest_free_bytes, 0u);
  EXPECT_EQ(error->numbers().limit_bytes, 1u << 30);
  EXPECT_EQ(error->numbers().device_free_bytes, 8192u - 2048);
  EXPECT_STREQ(error->what(),
               "allocate: out of memory: asked 8000 bytes, used 2048, cached 0, largest free block "
               "0, limit 1073741824, free on the device 6144");
  EXPECT_EQ(allocator().stats().used_bytes, 2048u);  // the failure left no trace
  allocator().free(kept, 2048, nullptr);
}

TEST_F(AllocatorTest, AbsurdSizeIsOutOfMemory) {
  allocator().free(allocator().allocate(512, nullptr), 512, nullptr);
  const auto error = thrown<OutOfMemory>([] { allocator().allocate(~std::size_t{0}, nullptr); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, ~std::size_t{0});
}

TEST_F(AllocatorTest, AbsurdSizeTellsWhatIsCached) {
  allocator().free(allocator().allocate(512, nullptr), 512, nullptr);
  const auto error = thrown<OutOfMemory>([] { allocator().allocate(~std::size_t{0}, nullptr); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().cached_bytes, error->numbers().largest_free_bytes);
}

TEST_F(AllocatorTest, OtherDriverErrorsAreCudaErrors) {
  Context::get(0);
  fake::fail_next("cuMemAlloc", cu::kInvalidValue);
  EXPECT_EQ(thrown<CudaError>([] { allocator().allocate(8, nullptr); })->call(), "cuMemAlloc");
  EXPECT_EQ(allocator().stats().used_bytes, 0u);
}

TEST_F(AllocatorTest, EightThreads) {
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
        std::memset(held.back()->data(), t, bytes);  // device memory is host memory here
        if (held.size() > 5) {
          const auto* first = static_cast<const unsigned char*>(held.front()->data());
          EXPECT_TRUE(std::all_of(first, first + held.front()->bytes(),
                                  [t](unsigned char byte) { return byte == t; }));
          held.erase(held.begin());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  const AllocatorStats stats = allocator().stats();
  EXPECT_EQ(stats.used_bytes, 0u);
  EXPECT_EQ(stats.cached_bytes, 0u);  // the streams are gone
  EXPECT_EQ(stats.num_allocations, std::size_t{kThreads} * kRounds);
  EXPECT_EQ(num_blocks(), 0u);
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

TEST_F(BufferTest, FreeWaitsForOtherStreamsThatUsedIt) {
  const auto home = make_stream();
  const auto other = make_stream();
  const StreamScope scope(home);
  auto buffer = Buffer::allocate(kGpu, 100);
  buffer->mark_use(home);
  buffer->mark_use(other);
  buffer->mark_use(other);
  buffer->mark_use(home);
  buffer->mark_use(other);
  EXPECT_TRUE(fake::stream_calls().empty());
  buffer.reset();
  const auto calls = fake::stream_calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].function, "cuEventRecord");
  EXPECT_EQ(calls[0].stream, other->handle());
  EXPECT_EQ(calls[1].function, "cuStreamWaitEvent");
  EXPECT_EQ(calls[1].stream, home->handle());
  EXPECT_EQ(calls[1].event, calls[0].event);
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
