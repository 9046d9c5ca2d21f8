// The transfer engine on the (fake) driver: order with streams, pinned and pageable memory, faults.
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "core/array.h"
#include "core/trace_log.h"
#include "device/host_copy.h"
#include "device/transfers.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

using runtime::TransferState;
using runtime::TransferType;

constexpr std::size_t kLarge = (std::size_t{3} << 20) + 12345;  // staged, in uneven chunks

std::vector<unsigned char> pattern(std::size_t bytes) {
  std::vector<unsigned char> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 251);
  return data;
}

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

class TransferTest : public CoreTest {
 protected:
  static Array array_of(std::size_t bytes) {
    return Array::empty({static_cast<std::int64_t>(bytes)}, DType::kUInt8, kGpu);
  }
};

TEST_F(TransferTest, LargePageableMemoryGoesThroughTheEngine) {
  const auto source = pattern(kLarge);
  const Array array =
      device::from_host(source.data(), {static_cast<std::int64_t>(kLarge)}, DType::kUInt8, kGpu);
  std::vector<unsigned char> back(kLarge);
  device::to_host(array, back.data());
  EXPECT_EQ(back, source);
  const auto stats = device::transfers(kGpu)->engine().stats();
  EXPECT_EQ(stats.of(TransferType::kH2D).staged_bytes, kLarge);
  EXPECT_EQ(stats.of(TransferType::kD2H).staged_bytes, kLarge);
  EXPECT_GT(stats.of(TransferType::kH2D).num_chunks, 4u);
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 3u);
}

TEST_F(TransferTest, CopiesAreInTheTrace) {
  trace_log().clear();
  trace_log().start();
  const auto source = pattern(64);
  const Array array = device::from_host(source.data(), {64}, DType::kUInt8, kGpu);
  std::vector<unsigned char> back(64);
  device::to_host(array, back.data());
  trace_log().stop();
  device::to_host(array, back.data());
  std::ostringstream text;
  trace_log().write_chrome_trace(text);
  trace_log().clear();
  EXPECT_NE(text.str().find("to the device"), std::string::npos);
  const auto first = text.str().find("to the host");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.str().find("to the host", first + 1), std::string::npos) << "off means off";
}

TEST_F(TransferTest, SmallAndPinnedCopiesStayDirect) {
  const auto source = pattern(1000);
  std::vector<unsigned char> back(1000);
  device::to_host(device::from_host(source.data(), {1000}, DType::kUInt8, kGpu), back.data());
  EXPECT_EQ(back, source);
  const auto pinned = PinnedMemory::allocate(kGpu, kLarge);
  std::memset(pinned->data(), 5, kLarge);
  const Array array =
      device::from_host(pinned->data(), {static_cast<std::int64_t>(kLarge)}, DType::kUInt8, kGpu);
  std::memset(pinned->data(), 6, kLarge);  // from_host has waited
  device::to_host(array, pinned->data());
  EXPECT_EQ(static_cast<unsigned char*>(pinned->data())[kLarge - 1], 5);
  EXPECT_EQ(fake::num_live(fake::Kind::kStream), 0u) << "no engine was made";
}

TEST_F(TransferTest, WaitsForTheStreamOfTheArray) {
  const auto source = pattern(kLarge);
  const Array array = array_of(kLarge);
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  fake::set_busy(stream->handle(), true);  // its work, which may still read the memory, is not done
  const auto engine = device::transfers(kGpu);
  const auto future = engine->submit(TransferType::kH2D, array.device_ptr(), address(source.data()),
                                     kLarge, stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(future.done());
  fake::set_busy(stream->handle(), false);
  auto wait = future;
  wait.wait();
  std::vector<unsigned char> back(kLarge);
  device::to_host(array, back.data());
  EXPECT_EQ(back, source);
}

TEST_F(TransferTest, ToHostWaitsForTheUsersOfTheArray) {
  const auto source = pattern(kLarge);
  const Array array =
      device::from_host(source.data(), {static_cast<std::int64_t>(kLarge)}, DType::kUInt8, kGpu);
  const auto user = Stream::create(kGpu, StreamPriority::kLow);
  array.buffer()->mark_use(user);
  const std::size_t before = fake::num_calls("cuStreamWaitEvent");
  std::vector<unsigned char> back(kLarge);
  device::to_host(array, back.data());
  EXPECT_EQ(fake::num_calls("cuStreamWaitEvent"), before + 1) << "the current stream waits for it";
  EXPECT_EQ(back, source);
}

TEST_F(TransferTest, ReportedErrorsAreThrownByToHost) {
  const Array array = array_of(kLarge);
  fake::fail_next("cuEventQuery", cu::kIllegalAddress);
  expect_leftovers();
  std::vector<unsigned char> back(kLarge);
  EXPECT_THROW(device::to_host(array, back.data()), CudaError);
  EXPECT_THROW(device::to_host(array, back.data()), DeviceLostError);
  device::close_transfers();  // ends although nothing works any more
}

TEST_F(TransferTest, PinnedMemoryOfTwoAllocationsIsStaged) {
  const auto memory = PinnedMemory::allocate(kGpu, 4096);
  Context& context = Context::get(0);
  EXPECT_TRUE(is_pinned(context, memory->data(), 4096));
  EXPECT_FALSE(is_pinned(context, memory->data(), 4097));
  EXPECT_TRUE(is_pinned(context, static_cast<char*>(memory->data()) + 4095, 1));
  const int local = 0;
  EXPECT_FALSE(is_pinned(context, &local, sizeof local));
}

TEST_F(TransferTest, AnUrgentCopyOvertakes) {
  const auto engine = device::transfers(kGpu);
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  fake::set_busy(stream->handle(), true);
  const auto pinned = PinnedMemory::allocate(kGpu, kLarge);
  const Array large = array_of(kLarge);
  const Array small = array_of(4096);
  std::atomic<int> order{0};
  std::atomic<int> large_at{0};
  std::atomic<int> small_at{0};
  runtime::TransferEngine::SubmitOptions first;
  first.on_done = [&](const runtime::TransferOp&) { large_at = ++order; };
  runtime::TransferEngine::SubmitOptions second;
  second.priority = 1;
  second.on_done = [&](const runtime::TransferOp&) { small_at = ++order; };
  auto slow = engine->submit(TransferType::kH2D, large.device_ptr(), address(pinned->data()),
                             kLarge, stream, std::move(first));
  auto urgent = engine->submit(TransferType::kH2D, small.device_ptr(), address(pinned->data()),
                               4096, Stream::default_for(kGpu), std::move(second));
  urgent.wait();
  EXPECT_FALSE(slow.done());
  while (small_at == 0) std::this_thread::yield();  // called back by another thread, perhaps
  fake::set_busy(stream->handle(), false);
  slow.wait();
  while (order < 2) std::this_thread::yield();
  EXPECT_EQ(small_at, 1);
  EXPECT_EQ(large_at, 2);
}

TEST_F(TransferTest, ACopyThatFailsFailsItsFuture) {
  const auto engine = device::transfers(kGpu);
  const auto source = pattern(kLarge);
  auto future = engine->submit(TransferType::kH2D, 4096, address(source.data()), kLarge,
                               Stream::default_for(kGpu));
  const auto error = thrown<CudaError>([&] { future.wait(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->call(), "cuMemcpyHtoDAsync");
  EXPECT_EQ(future.result().state, TransferState::kFailed);
  const Array array = array_of(kLarge);  // the engine continues
  auto next = engine->submit(TransferType::kH2D, array.device_ptr(), address(source.data()), kLarge,
                             Stream::default_for(kGpu));
  next.wait();
}

TEST_F(TransferTest, NoPinnedMemoryIsOutOfMemory) {
  const Array array = array_of(kLarge);
  const auto source = pattern(kLarge);
  fake::fail_next("cuMemHostRegister", cu::kOutOfMemory);
  fake::fail_next("cuMemHostAlloc", cu::kOutOfMemory);
  const auto error = thrown<OutOfMemory>([&] {
    device::upload(array.device_ptr(), source.data(), kLarge, Stream::default_for(kGpu));
  });
  ASSERT_TRUE(error);
  device::upload(array.device_ptr(), source.data(), kLarge, Stream::default_for(kGpu));
}

TEST_F(TransferTest, CpuSimulationCopies) {
  const auto engine = device::transfers(kCpu);
  const auto source = pattern(kLarge);
  std::vector<unsigned char> target(kLarge);
  auto future = engine->submit(TransferType::kD2H, address(target.data()), address(source.data()),
                               kLarge, Stream::default_for(kCpu));
  future.wait();
  EXPECT_EQ(target, source);
  EXPECT_EQ(fake::num_calls("cuMemcpyDtoHAsync"), 0u);
}

TEST_F(TransferTest, ConfiguredBeforeTheFirstUseOnly) {
  runtime::TransferEngine::Options options;
  options.chunk_bytes = 1024;
  options.max_in_flight_bytes = 4096;
  device::configure_transfers(kGpu, options);
  EXPECT_EQ(device::transfers(kGpu)->engine().options().chunk_bytes, 1024u);
  EXPECT_THROW(device::configure_transfers(kGpu, options), Error);
  device::close_transfers();
  device::configure_transfers(kGpu, {});
  EXPECT_EQ(device::transfers(kGpu)->engine().options().chunk_bytes,
            runtime::TransferEngine::Options{}.chunk_bytes);
}

TEST_F(TransferTest, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<unsigned char> source(kLarge, static_cast<unsigned char>(t + 1));
      for (int round = 0; round < 3; ++round) {
        const Array array = device::from_host(source.data(), {static_cast<std::int64_t>(kLarge)},
                                              DType::kUInt8, kGpu);
        std::vector<unsigned char> back(kLarge);
        device::to_host(array, back.data());
        if (back != source) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// At exit threads continue to submit and wait.
TEST_F(TransferTest, CloseWhileOthersUseIt) {
  const Array array = array_of(4096);
  const auto source = pattern(4096);
  for (int round = 0; round < 30; ++round) {
    const std::shared_ptr<device::Transfers> engine = device::transfers(kGpu);
    std::atomic<bool> over{false};
    std::atomic<int> copied{0};
    const auto copy = [&] {
      try {
        auto future = engine->submit(TransferType::kH2D, address(array.data()),
                                     address(source.data()), 4096, current_stream(kGpu));
        future.wait();
        ++copied;
      } catch (const Error&) {  // cancelled
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        while (!over) copy();
      });
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    device::close_transfers();
    const int before = copied;
    copy();
    EXPECT_GT(copied, before);
    over = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace gpk
