#include "core/context.h"

#include <thread>

#include "base/error.h"
#include "core/buffer.h"
#include "core/event.h"
#include "core/launch.h"
#include "device/device_pool.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class ContextTest : public CoreTest {
 protected:
  static cu::Context current() {
    cu::Context context = nullptr;
    EXPECT_EQ(fake::api().cuCtxGetCurrent(&context), cu::kSuccess);
    return context;
  }
};

TEST_F(ContextTest, IsMadeOnce) {
  Context& context = Context::get(0);
  EXPECT_EQ(&Context::get(0), &context);
  EXPECT_EQ(Context::all(), std::vector<Context*>{&context});
  EXPECT_EQ(context.device(), kGpu);
  EXPECT_EQ(context.traits().name, device_traits(kGpu).name);
  EXPECT_EQ(context.greatest_priority(), -5);
  EXPECT_EQ(fake::num_calls("cuDevicePrimaryCtxRetain"), 1u);
}

TEST_F(ContextTest, ConcurrentFirstUseMakesOne) {
  std::vector<std::thread> threads;
  std::vector<Context*> seen(8);
  for (Context*& slot : seen) threads.emplace_back([&slot] { slot = &Context::get(0); });
  for (std::thread& thread : threads) thread.join();
  for (Context* context : seen) EXPECT_EQ(context, seen[0]);
  EXPECT_EQ(fake::num_calls("cuDevicePrimaryCtxRetain"), 1u);
}

TEST_F(ContextTest, AFailedFirstUseMayBeRepeated) {
  fake::fail_next("cuDevicePrimaryCtxRetain", cu::kOutOfMemory);
  EXPECT_THROW(Context::get(0), Error);
  EXPECT_TRUE(Context::all().empty());
  EXPECT_NO_THROW(Context::get(0));
}

TEST_F(ContextTest, MakeCurrentFollowsOtherLibraries) {
  Context& context = Context::get(0);
  fake::api().cuCtxSetCurrent(nullptr);  // as another library in this thread might
  EXPECT_EQ(Context::current_or_null(), nullptr);
  context.make_current();
  EXPECT_EQ(current(), context.handle());
  EXPECT_EQ(Context::current_or_null(), &context);
  const std::size_t calls = fake::num_calls("cuCtxSetCurrent");
  context.make_current();
  EXPECT_EQ(fake::num_calls("cuCtxSetCurrent"), calls);
}

TEST_F(ContextTest, AThreadsContextEndsWithTheDriverThatMadeIt) {
  Context::get(0).make_current();
  EXPECT_NE(current(), nullptr);
  use_driver(fake::api());
  fake::reset();
  cu::Context made = nullptr;
  ASSERT_EQ(fake::api().cuInit(0), cu::kSuccess);
  ASSERT_EQ(fake::api().cuDevicePrimaryCtxRetain(&made, 0), cu::kSuccess);
  EXPECT_EQ(current(), nullptr);
}

TEST_F(ContextTest, ThreadsHaveTheirOwnCurrentContext) {
  fake::set_devices({{}, {}});
  Context& first = Context::get(0);
  Context& second = Context::get(1);
  first.make_current();
  std::thread([&] {
    EXPECT_EQ(current(), nullptr);
    auto stream = Stream::create(second.device(), StreamPriority::kLow);
    EXPECT_EQ(current(), second.handle());
    stream->synchronize();
    stream.reset();
    auto event = Event::create(first.device(), {});
    EXPECT_EQ(current(), first.handle());
  }).join();
  EXPECT_EQ(current(), first.handle());
}

TEST_F(ContextTest, WorkSwitchesToTheContextOfItsStream) {
  fake::set_devices({{}, {}});
  const Device other{DeviceKind::kCuda, 1};
  auto here = Buffer::allocate(kGpu, 16);
  auto there = Buffer::allocate(other, 16);
  EXPECT_EQ(fake::used_bytes(0), device::device_pool({DeviceKind::kCuda, 0}).chunk_bytes());
  EXPECT_EQ(fake::used_bytes(1), device::device_pool({DeviceKind::kCuda, 1}).chunk_bytes());
  const float value = 3.0f;
  copy_to_device(here->device_ptr(), &value, sizeof value, *current_stream(kGpu));
  EXPECT_EQ(current(), Context::get(0).handle());
}

TEST_F(ContextTest, SynchronizeWaits) {
  Context& context = Context::get(0);
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  fake::set_busy(stream->handle(), true);
  EXPECT_FALSE(stream->query());
  context.synchronize();
  EXPECT_TRUE(stream->query());
}

TEST_F(ContextTest, PeerAccess) {
  fake::set_devices({{}, {}, {.can_access_peers = false}});
  Context& first = Context::get(0);
  EXPECT_TRUE(first.enable_peer_access(first));
  EXPECT_TRUE(first.enable_peer_access(Context::get(1)));
  EXPECT_TRUE(first.enable_peer_access(Context::get(1)));  // already enabled is no error
  EXPECT_FALSE(first.enable_peer_access(Context::get(2)));
  EXPECT_EQ(fake::num_calls("cuCtxEnablePeerAccess"), 2u);
}

TEST_F(ContextTest, NonStickyErrorLeavesTheContextUsable) {
  Context& context = Context::get(0);
  fake::fail_next("cuCtxSynchronize", cu::kInvalidValue);
  const auto error = thrown<CudaError>([&] { context.synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), cu::kInvalidValue);
  EXPECT_EQ(error->name(), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(error->call(), "cuCtxSynchronize");
  EXPECT_STREQ(error->what(),
               "cuCtxSynchronize failed: CUDA_ERROR_INVALID_VALUE (1): invalid argument");
  EXPECT_TRUE(error->launches().empty());
  EXPECT_FALSE(context.dead());
  EXPECT_NO_THROW(context.synchronize());
}

TEST_F(ContextTest, UnknownErrorCodeIsStillReported) {
  Context& context = Context::get(0);
  fake::fail_next("cuCtxSynchronize", 12345);
  EXPECT_CONTAINS(message_of<CudaError>([&] { context.synchronize(); }), "(12345)");
}

TEST_F(ContextTest, StickyErrorNamesTheLaunchOnceThenTheDeviceIsLost) {
  expect_leftovers();
  Context& context = Context::get(0);
  fake::set_param_sizes("scale", {});
  const auto kernel = load_kernel("scale");
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  launch_args(*kernel, {.grid = {4, 2, 1}, .block = {256, 1, 1}}, stream);
  fake::fail_next("cuStreamSynchronize", cu::kIllegalAddress);
  const auto error = thrown<CudaError>([&] { stream->synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(dynamic_cast<const DeviceLostError*>(&*error), nullptr);
  EXPECT_EQ(error->code(), cu::kIllegalAddress);
  EXPECT_EQ(error->call(), "cuStreamSynchronize");
  ASSERT_EQ(error->launches().size(), 1u);
  EXPECT_CONTAINS(error->launches()[0], "scale<<<(4,2,1), (256,1,1)>>> on stream 0x");
  EXPECT_CONTAINS(error->what(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  EXPECT_CONTAINS(error->what(), "scale<<<(4,2,1), (256,1,1)>>>");
  EXPECT_CONTAINS(error->what(), "PYGPUKIT_LAUNCH_BLOCKING=1");
  EXPECT_TRUE(context.dead());

  const auto lost = thrown<DeviceLostError>([&] { stream->synchronize(); });
  ASSERT_TRUE(lost);
  EXPECT_CONTAINS(lost->what(),
                  "cuda:0 is lost since CUDA_ERROR_ILLEGAL_ADDRESS in "
                  "cuStreamSynchronize after scale<<<(4,2,1), (256,1,1)>>>");
  EXPECT_THROW(Buffer::allocate(kGpu, 16), DeviceLostError);
  EXPECT_THROW(Event::create(kGpu, {}), DeviceLostError);
  EXPECT_THROW(launch_args(*kernel, {}, stream), DeviceLostError);
  EXPECT_THROW(load_module(), DeviceLostError);
}

TEST_F(ContextTest, EveryStickyCodeLosesTheDevice) {
  expect_leftovers();
  for (const int code : {700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    use_driver(fake::api());
    fake::reset();
    Context& context = Context::get(0);
    fake::fail_next("cuCtxSynchronize", code);
    EXPECT_THROW(context.synchronize(), CudaError) << code;
    EXPECT_TRUE(context.dead()) << code;
  }
}

TEST_F(ContextTest, HandlesOfALostDeviceMayBeDropped) {
  expect_leftovers();
  auto stream = Stream::create(kGpu, StreamPriority::kLow);
  auto event = Event::create(kGpu, {});
  auto buffer = Buffer::allocate(kGpu, 100);
  auto pinned = PinnedMemory::allocate(kGpu, 100);
  auto kernel = load_kernel("k");
  fake::fail_next("cuCtxSynchronize", cu::kLaunchFailed);
  EXPECT_THROW(Context::get(0).synchronize(), CudaError);
  stream.reset();
  event.reset();
  buffer.reset();
  pinned.reset();
  kernel.reset();
}

TEST_F(ContextTest, ALostDeviceDoesNotTakeOthersAlong) {
  expect_leftovers();
  fake::set_devices({{}, {}});
  Context& second = Context::get(1);
  fake::fail_next("cuCtxSynchronize", cu::kLaunchFailed);
  EXPECT_THROW(Context::get(0).synchronize(), CudaError);
  EXPECT_FALSE(second.dead());
  EXPECT_NO_THROW(second.synchronize());
}

TEST_F(ContextTest, RecentLaunchesAreNewestFirst) {
  Context& context = Context::get(0);
  EXPECT_TRUE(context.recent_launches().empty());
  const unsigned one[3] = {1, 1, 1};
  for (const char* name : {"a", "b", "c", "d", "e"}) context.note_launch(name, one, one, nullptr);
  EXPECT_EQ(context.recent_launches(), (std::vector<std::string>{
                                           "e<<<(1,1,1), (1,1,1)>>> on stream 0x0",
                                           "d<<<(1,1,1), (1,1,1)>>> on stream 0x0",
                                           "c<<<(1,1,1), (1,1,1)>>> on stream 0x0",
                                           "b<<<(1,1,1), (1,1,1)>>> on stream 0x0",
                                       }));
}

// check.h promises OutOfMemory for driver calls that run out of memory.
TEST_F(ContextTest, OutOfMemoryOfAnyCallIsOutOfMemory) {
  Context::get(0);
  fake::fail_next("cuStreamCreateWithPriority", cu::kOutOfMemory);
  EXPECT_THROW(Stream::create(kGpu, StreamPriority::kLow), OutOfMemory);
}

}  // namespace
}  // namespace gpk
