#include "device/memory_account.h"

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>

#include "base/error.h"
#include "core/buffer.h"
#include "device/device_partition.h"
#include "device/device_pool.h"
#include "device/pool_buffer.h"
#include "device/pool_ledger.h"
#include "fake_driver/core_fixture.h"
#include "runtime/scheduler/scheduler.h"

namespace gpk {
namespace {

constexpr std::size_t kChunk = std::size_t{2} << 20;

class AccountTest : public CoreTest {
 protected:
  AccountTest() { fake::set_devices({{.memory_bytes = 64 * kChunk}}); }
  static runtime::Pool& pool() { return device::device_pool({DeviceKind::kCuda, 0}); }
};
class PoolLedgerTest : public AccountTest {};

TEST_F(AccountTest, CountsWhatTheThreadAllocates) {
  for (const Device device : {kGpu, kCpu}) {
    const auto account = device::MemoryAccount::open(device, "a", 0);
    const auto before = Buffer::allocate(device, 4096);
    std::shared_ptr<Buffer> inside;
    {
      const device::AccountScope scope(account);
      EXPECT_EQ(device::current_account(device), account);
      inside = Buffer::allocate(device, 3 * kChunk);
      std::thread([&] { EXPECT_EQ(device::current_account(device), nullptr); }).join();
    }
    EXPECT_EQ(device::current_account(device), nullptr);
    const auto after = Buffer::allocate(device, 4096);
    EXPECT_EQ(account->stats().used_bytes, 3 * kChunk);
    inside.reset();
    EXPECT_EQ(account->stats().used_bytes, 0u);
    EXPECT_EQ(account->stats().peak_bytes, 3 * kChunk);
  }
}

TEST_F(AccountTest, RefusesPastItsLimitAndTheNeighbourGoesOn) {
  const auto a = device::MemoryAccount::open(kGpu, "tenant a", 4 * kChunk);
  const auto b = device::MemoryAccount::open(kGpu, "tenant b", 4 * kChunk);
  const device::AccountScope scope(a);
  const auto held = Buffer::allocate(kGpu, 3 * kChunk);
  const auto error = thrown<OutOfMemory>([] { Buffer::allocate(kGpu, 2 * kChunk + 7); });
  ASSERT_TRUE(error);
  EXPECT_STREQ(
      error->what(),
      "allocate: out of memory: asked 4.00 MiB (4194311 bytes), account 'tenant a' has used "
      "6.00 MiB of its limit of 8.00 MiB");
  EXPECT_TRUE(error->numbers().account_refused);
  EXPECT_EQ(error->numbers().account, "tenant a");
  EXPECT_EQ(error->numbers().account_used_bytes, 3 * kChunk);
  EXPECT_EQ(error->numbers().account_limit_bytes, 4 * kChunk);
  EXPECT_EQ(a->stats().num_refused, 1u);
  {
    const device::AccountScope other(b);
    const auto fits = Buffer::allocate(kGpu, 4 * kChunk);
    EXPECT_EQ(b->stats().used_bytes, 4 * kChunk);
  }
  a->set_limit(8 * kChunk);
  EXPECT_NO_THROW(Buffer::allocate(kGpu, 2 * kChunk));
}

TEST_F(AccountTest, OneAccountPerNameAsLongAsAnybodyHoldsIt) {
  auto account = device::MemoryAccount::open(kGpu, "a", 5);
  EXPECT_EQ(device::MemoryAccount::open(kGpu, "a", std::nullopt), account);
  EXPECT_EQ(account->stats().limit_bytes, 5u);
  EXPECT_EQ(device::MemoryAccount::open(kGpu, "a", 0), account);
  EXPECT_EQ(account->stats().limit_bytes, 0u);
  EXPECT_NE(device::MemoryAccount::open(kCpu, "a", 5), account);
  std::shared_ptr<Buffer> buffer;
  {
    const device::AccountScope scope(account);
    buffer = Buffer::allocate(kGpu, 100);
  }
  account.reset();
  EXPECT_EQ(pool().account_stats().size(), 1u);  // its buffer lives
  EXPECT_GE(device::MemoryAccount::open(kGpu, "a", std::nullopt)->stats().used_bytes, 100u);
  buffer.reset();
  EXPECT_TRUE(pool().account_stats().empty());
  EXPECT_THROW(device::MemoryAccount::open(kGpu, "", 5), InvalidArgument);
}

TEST_F(AccountTest, LowerClassesLeaveFirst) {
  expect_copy_stream();
  set_env("PYGPUKIT_MEMORY_LIMIT", "8M");
  pool().set_evict_from(kChunk);
  const auto best_effort =
      device::MemoryAccount::open(kGpu, "be", 0, runtime::PoolClass::kBestEffort);
  const auto guaranteed =
      device::MemoryAccount::open(kGpu, "g", 0, runtime::PoolClass::kGuaranteed);
  std::shared_ptr<Buffer> low;
  std::shared_ptr<Buffer> high;
  {
    const device::AccountScope scope(guaranteed);
    high = Buffer::allocate(kGpu, 2 * kChunk);
  }
  {
    const device::AccountScope scope(best_effort);
    low = Buffer::allocate(kGpu, 2 * kChunk);
  }
  const auto common = Buffer::allocate(kGpu, 2 * kChunk);  // of the class between
  EXPECT_TRUE(pool().is_evicted(device::pool_block(*low)));
  EXPECT_FALSE(pool().is_evicted(device::pool_block(*high)));
  const device::AccountScope scope(best_effort);
  EXPECT_THROW(Buffer::allocate(kGpu, kChunk), OutOfMemory);  // those above do not make way for it
}

TEST_F(PoolLedgerTest, HoldsRoomAndGivesItBack) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "16M");
  device::PoolLedger ledger(kGpu, nullptr);
  EXPECT_EQ(ledger.device_bytes(), 8 * kChunk);
  EXPECT_EQ(ledger.available_bytes("a"), 8 * kChunk);
  EXPECT_EQ(ledger.reserve(6 * kChunk, "a"), runtime::ReserveResult::kGranted);
  EXPECT_EQ(ledger.available_bytes("b"), 2 * kChunk);
  EXPECT_EQ(ledger.reserve(3 * kChunk, "b"), runtime::ReserveResult::kDeviceFull);
  EXPECT_THROW(Buffer::allocate(kGpu, 3 * kChunk), OutOfMemory);  // it is not everybody's
  ledger.release(6 * kChunk, "a");
  EXPECT_EQ(ledger.available_bytes("b"), 8 * kChunk);
  EXPECT_NO_THROW(Buffer::allocate(kGpu, 8 * kChunk));
}

TEST_F(PoolLedgerTest, ATaskAllocatesInItsReservation) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "16M");
  device::PoolLedger ledger(kGpu, nullptr);
  ASSERT_EQ(ledger.reserve(4 * kChunk, "a"), runtime::ReserveResult::kGranted);
  ASSERT_EQ(ledger.reserve(4 * kChunk, "a"), runtime::ReserveResult::kGranted);
  std::shared_ptr<Buffer> result;
  {
    const device::PoolLedger::Scope first(ledger, 4 * kChunk, "a");
    const auto scratch = Buffer::allocate(kGpu, 2 * kChunk);
    result = Buffer::allocate(kGpu, 2 * kChunk);
    EXPECT_THROW(Buffer::allocate(kGpu, kChunk), OutOfMemory);  // the other task's is not his
    std::thread([&] {
      const device::PoolLedger::Scope second(ledger, 4 * kChunk, "a");
      EXPECT_TRUE(second.holds());
      EXPECT_NO_THROW(Buffer::allocate(kGpu, 4 * kChunk));
      const device::PoolLedger::Scope third(ledger, 4 * kChunk, "a");
      EXPECT_FALSE(third.holds());
    }).join();
  }
  ledger.release(4 * kChunk, "a");
  ledger.release(4 * kChunk, "a");
  EXPECT_EQ(ledger.available_bytes("a"), 6 * kChunk);  // the result lives on
  result.reset();
  EXPECT_EQ(ledger.available_bytes("a"), 8 * kChunk);
}

TEST_F(PoolLedgerTest, LimitsOfAccountsComeFirst) {
  set_env("PYGPUKIT_MEMORY_LIMIT", "16M");
  const auto limits = std::make_shared<runtime::LimitLedger>();
  limits->set_account_limit("a", 2 * kChunk);
  {
    device::PoolLedger ledger(kGpu, limits);
    EXPECT_EQ(ledger.capacity_bytes("a"), 2 * kChunk);
    EXPECT_EQ(ledger.capacity_bytes("b"), 8 * kChunk);
    EXPECT_EQ(ledger.reserve(3 * kChunk, "a"), runtime::ReserveResult::kAccountFull);
    EXPECT_EQ(ledger.reserve(2 * kChunk, "a"), runtime::ReserveResult::kGranted);
    EXPECT_EQ(ledger.available_bytes("a"), 0u);
    EXPECT_EQ(ledger.reserve(7 * kChunk, "b"), runtime::ReserveResult::kDeviceFull);
    EXPECT_EQ(limits->reserved_bytes("b"), 0u);  // a refused grant leaves no trace
    EXPECT_EQ(ledger.reserve(0, "b"), runtime::ReserveResult::kGranted);
    EXPECT_EQ(limits->reserved_bytes(), 2 * kChunk);
  }
  EXPECT_EQ(limits->reserved_bytes(), 0u);
}

TEST_F(PoolLedgerTest, AReservationInAPartitionIsPartOfItsMemory) {
  using runtime::ReserveResult;
  device::PartitionRequest request;
  request.name = "p";
  request.memory_bytes = 8 * kChunk;
  const auto partition = device::DevicePartition::create(kGpu, request);
  device::PoolLedger ledger(kGpu, nullptr);
  EXPECT_EQ(ledger.capacity_bytes("p"), 8 * kChunk);
  EXPECT_EQ(ledger.capacity_bytes("other"), 64 * kChunk);
  ASSERT_EQ(ledger.reserve(6 * kChunk, "p"), ReserveResult::kGranted);
  EXPECT_EQ(ledger.available_bytes("p"), 2 * kChunk);
  EXPECT_EQ(partition->account()->stats().used_bytes, 6 * kChunk);
  EXPECT_EQ(ledger.reserve(3 * kChunk, "p"), ReserveResult::kAccountFull);
  EXPECT_THROW(partition->close(), Error);
  std::shared_ptr<Buffer> result;
  {
    const device::AccountScope account(partition->account());
    EXPECT_THROW(Buffer::allocate(kGpu, 3 * kChunk), OutOfMemory);  // it is the task's
    const device::PoolLedger::Scope task(ledger, 6 * kChunk, "p");
    for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(Buffer::allocate(kGpu, 6 * kChunk));
    result = Buffer::allocate(kGpu, 5 * kChunk);
    EXPECT_EQ(partition->account()->stats().used_bytes, 6 * kChunk);
    const auto beyond = Buffer::allocate(kGpu, 3 * kChunk);
    EXPECT_EQ(partition->account()->stats().used_bytes, 8 * kChunk);
    const auto error = thrown<OutOfMemory>([] { Buffer::allocate(kGpu, kChunk); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->numbers().account, "partition p");
    EXPECT_EQ(error->numbers().account_limit_bytes, 8 * kChunk);
  }
  EXPECT_EQ(partition->account()->stats().used_bytes, 6 * kChunk);
  EXPECT_EQ(partition->account()->stats().num_refused, 2u);
  ledger.release(6 * kChunk, "p");
  EXPECT_EQ(partition->account()->stats().used_bytes, 5 * kChunk);  // the result lives on
  EXPECT_EQ(pool().account_stats().size(), 1u);                     // reservations are not listed
  result.reset();
  EXPECT_EQ(partition->account()->stats().used_bytes, 0u);
  partition->close();
}

// A thread that waits inside a task may run another one, which is charged separately.
TEST_F(PoolLedgerTest, ANestedTaskUsesNothingOfTheOuterOne) {
  device::PoolLedger ledger(kGpu, nullptr);
  ASSERT_EQ(ledger.reserve(4 * kChunk, ""), runtime::ReserveResult::kGranted);
  const device::PoolLedger::Scope outer(ledger, 4 * kChunk, "");
  const std::size_t set_aside = pool().stats().set_aside_bytes;
  {
    const device::PoolLedger::Scope inner(ledger, 0, "");
    const auto buffer = Buffer::allocate(kGpu, 2 * kChunk);
    EXPECT_EQ(pool().stats().set_aside_bytes, set_aside);
  }
  const auto buffer = Buffer::allocate(kGpu, 2 * kChunk);
  EXPECT_LT(pool().stats().set_aside_bytes, set_aside);
}

TEST_F(PoolLedgerTest, IdleBlocksMakeWayAndBusyOnesDoNot) {
  expect_copy_stream();
  set_env("PYGPUKIT_MEMORY_LIMIT", "16M");
  pool().set_evict_from(kChunk);
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  const StreamScope scope(stream);
  const auto buffer = Buffer::allocate(kGpu, 6 * kChunk);
  {
    const BufferUse use(buffer, stream);
    fake::set_busy(stream->handle(), true);
  }
  device::PoolLedger ledger(kGpu, nullptr);
  EXPECT_EQ(ledger.reserve(4 * kChunk, "a"), runtime::ReserveResult::kDeviceFull);
  EXPECT_FALSE(pool().is_evicted(device::pool_block(*buffer)));
  fake::set_busy(stream->handle(), false);
  EXPECT_EQ(ledger.reserve(4 * kChunk, "a"), runtime::ReserveResult::kGranted);
  EXPECT_TRUE(pool().is_evicted(device::pool_block(*buffer)));
  ledger.release(4 * kChunk, "a");
}

TEST_F(PoolLedgerTest, LooksAgainSoonOnlyWhileTheDeviceDecides) {
  using namespace std::chrono_literals;
  set_env("PYGPUKIT_MEMORY_LIMIT", "16M");
  device::PoolLedger ledger(kGpu, nullptr);
  EXPECT_GE(ledger.recheck_after(), 1s);
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  auto buffer = Buffer::allocate(kGpu, 6 * kChunk);  // at home on the default stream
  {
    const BufferUse use(buffer, stream);
    fake::set_busy(stream->handle(), true);
  }
  buffer.reset();  // freed while the other stream works on it
  EXPECT_EQ(ledger.reserve(4 * kChunk, "a"), runtime::ReserveResult::kDeviceFull);
  EXPECT_LE(ledger.recheck_after(), 20ms);
  fake::set_busy(stream->handle(), false);
  EXPECT_EQ(ledger.reserve(4 * kChunk, "a"), runtime::ReserveResult::kGranted);
  EXPECT_GE(ledger.recheck_after(), 1s);
  ledger.release(4 * kChunk, "a");
}

TEST_F(PoolLedgerTest, ADroppedArrayWakesTheWorker) {
  class Listener final : public runtime::MemoryListener {
   public:
    void memory_changed() noexcept override { ++num; }
    std::atomic<int> num = 0;
  };
  set_env("PYGPUKIT_MEMORY_LIMIT", "16M");
  const auto limits = std::make_shared<runtime::LimitLedger>();
  const auto ledger = std::make_shared<device::PoolLedger>(kGpu, limits);
  Listener listener;
  ledger->add_listener(listener);
  auto buffer = Buffer::allocate(kGpu, 6 * kChunk);
  {
    runtime::Scheduler scheduler(ledger);
    runtime::TaskSpec spec;
    spec.memory_bytes = 4 * kChunk;
    spec.body = [](runtime::TaskContext&) {};
    const runtime::TaskId id = scheduler.submit(std::move(spec));
    EXPECT_EQ(scheduler.state(id), runtime::TaskState::kQueued);
    const std::jthread worker([&](const std::stop_token& stop) { scheduler.serve(stop); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(scheduler.state(id), runtime::TaskState::kQueued);
    EXPECT_EQ(listener.num, 0);
    buffer.reset();
    EXPECT_GE(listener.num, 1);  // the task that it lets run gives its memory back, too
    const auto info = scheduler.wait(id, std::chrono::seconds(60));
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->state, runtime::TaskState::kCompleted);
  }
  limits->set_account_limit("a", 1);
  const int before = listener.num;
  limits->set_account_limit("a", 2);
  EXPECT_EQ(listener.num, before + 1) << "limits are heard through the ledger";
  ledger->remove_listener(listener);
  limits->set_account_limit("a", 3);
  EXPECT_EQ(listener.num, before + 1);
}

}  // namespace
}  // namespace gpk
