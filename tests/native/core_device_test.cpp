#include "core/device.h"

#include "base/error.h"
#include "core/buffer.h"
#include "device/device_pool.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class DeviceTest : public CoreTest {};

TEST_F(DeviceTest, Names) {
  EXPECT_EQ(to_string(kCpu), "cpu");
  EXPECT_EQ(to_string(Device{DeviceKind::kCuda, 3}), "cuda:3");
}

TEST_F(DeviceTest, TraitsOfAGpu) {
  const std::size_t memory = std::size_t{24} << 30;
  fake::set_devices({{}, {.name = "Second", .sm = 86, .num_sms = 28, .memory_bytes = memory}});
  const DeviceTraits& first = device_traits(kGpu);
  EXPECT_EQ(first.name, "Fake GPU");
  EXPECT_EQ(first.pci_bus_id, "0000:01:00.0");
  EXPECT_EQ(first.sm, 90);
  EXPECT_EQ(first.multiprocessor_count, 132);
  EXPECT_EQ(first.total_memory_bytes, std::size_t{80} << 30);
  EXPECT_EQ(first.warp_size, 32);
  EXPECT_EQ(first.max_threads_per_block, 1024);
  EXPECT_EQ(first.max_threads_per_sm, 2048);
  EXPECT_EQ(first.max_block[2], 64);
  EXPECT_EQ(first.max_grid[0], 2147483647);
  EXPECT_EQ(first.max_grid[1], 65535);
  EXPECT_EQ(first.shared_per_block_bytes, 49152u);
  EXPECT_EQ(first.shared_per_block_optin_bytes, 227u * 1024);
  EXPECT_EQ(first.shared_per_sm_bytes, 228u * 1024);
  EXPECT_EQ(first.l2_bytes, 50u << 20);
  EXPECT_TRUE(first.cooperative_launch);
  EXPECT_TRUE(first.cluster_launch);
  const DeviceTraits& second = device_traits({DeviceKind::kCuda, 1});
  EXPECT_EQ(second.name, "Second");
  EXPECT_EQ(second.pci_bus_id, "0000:02:00.0");
  EXPECT_EQ(second.sm, 86);
  EXPECT_EQ(second.total_memory_bytes, memory);
  EXPECT_FALSE(second.cluster_launch);
}

TEST_F(DeviceTest, TraitsAreReadOnce) {
  const DeviceTraits& first = device_traits(kGpu);
  const std::size_t calls = fake::num_calls("cuDeviceGetAttribute");
  EXPECT_EQ(&device_traits(kGpu), &first);
  EXPECT_EQ(fake::num_calls("cuDeviceGetAttribute"), calls);
}

TEST_F(DeviceTest, TraitsOfTheCpu) {
  const DeviceTraits& traits = device_traits(kCpu);
  EXPECT_EQ(traits.sm, 0);
  EXPECT_EQ(traits.pci_bus_id, "");
  EXPECT_GT(traits.total_memory_bytes, 0u);
  EXPECT_GE(traits.multiprocessor_count, 1);
  EXPECT_EQ(fake::num_calls("cuInit"), 0u);
}

TEST_F(DeviceTest, IndexOutOfRange) {
  for (const int index : {-1, 1, 64, 1000}) {
    const Device device{DeviceKind::kCuda, index};
    EXPECT_EQ(message_of<InvalidArgument>([&] { device_traits(device); }),
              "device: cuda:" + std::to_string(index) + " does not exist, there are 1 GPUs");
    EXPECT_THROW(Context::get(index), InvalidArgument);
    EXPECT_THROW(set_default_device(device), InvalidArgument);
  }
}

TEST_F(DeviceTest, MemoryInfo) {
  fake::set_devices({{.memory_bytes = 16 << 20}});
  EXPECT_EQ(memory_info(kGpu).total_bytes, 16u << 20);
  EXPECT_EQ(memory_info(kGpu).free_bytes, 16u << 20);
  auto buffer = Buffer::allocate(kGpu, 4096);
  EXPECT_EQ(memory_info(kGpu).free_bytes,
            (16u << 20) - device::device_pool({DeviceKind::kCuda, 0}).chunk_bytes());
  EXPECT_GT(memory_info(kCpu).total_bytes, 0u);
}

TEST_F(DeviceTest, AutoChoosesTheGpuAndSaysWhich) {
  EXPECT_EQ(default_device(), kGpu);
  EXPECT_EQ(default_device_choice().reason, "GPU 0: Fake GPU (SM 90)");
}

TEST_F(DeviceTest, OldGpuIsRefusedAndAutoFallsBack) {
  fake::set_devices({{.name = "Old", .sm = 75}});
  EXPECT_EQ(default_device(), kCpu);
  const std::string& reason = default_device_choice().reason;
  EXPECT_CONTAINS(reason, "GPU 0 (Old) has SM 75; SM 80 or newer is required");
  EXPECT_CONTAINS(reason, "Falling back to CPU simulation");
  EXPECT_CONTAINS(message_of<GpuUnavailable>([] { Context::get(0); }), "SM 75");
}

TEST_F(DeviceTest, AutoWithoutDriverFallsBackWithTheReason) {
  set_env("PYGPUKIT_CUDA_DRIVER", "/nonexistent.so");
  use_real_driver();
  EXPECT_EQ(default_device(), kCpu);
  EXPECT_CONTAINS(default_device_choice().reason, "/nonexistent.so");
}

TEST_F(DeviceTest, CpuByEnvironmentLeavesTheDriverAlone) {
  set_env("PYGPUKIT_DEVICE", "cpu");
  EXPECT_EQ(default_device(), kCpu);
  EXPECT_EQ(default_device_choice().reason, "PYGPUKIT_DEVICE=cpu");
  EXPECT_EQ(fake::num_calls("cuInit"), 0u);
}

TEST_F(DeviceTest, RequiredGpuThatIsMissingRaisesWithTheReason) {
  fake::set_devices({{.name = "Old", .sm = 75}});
  set_env("PYGPUKIT_REQUIRE_GPU", "1");
  const std::string message = message_of<GpuUnavailable>([] { default_device(); });
  EXPECT_CONTAINS(message, "SM 75");
  EXPECT_CONTAINS(message, "PYGPUKIT_REQUIRE_GPU=1");
  set_env("PYGPUKIT_REQUIRE_GPU", nullptr);
  set_env("PYGPUKIT_DEVICE", "cuda");
  EXPECT_CONTAINS(message_of<GpuUnavailable>([] { default_device(); }), "PYGPUKIT_DEVICE=cuda");
  set_env("PYGPUKIT_DEVICE", nullptr);
  EXPECT_EQ(default_device(), kCpu);  // nothing was remembered from the failures
}

TEST_F(DeviceTest, RequiredGpuThatIsThere) {
  set_env("PYGPUKIT_REQUIRE_GPU", "1");
  EXPECT_EQ(default_device(), kGpu);
}

TEST_F(DeviceTest, TheProgramMayChoose) {
  fake::set_devices({{}, {}});
  const Device second{DeviceKind::kCuda, 1};
  set_default_device(second);
  EXPECT_EQ(default_device(), second);
  EXPECT_EQ(default_device_choice().reason, "chosen by the program");
  set_default_device(kCpu);
  EXPECT_EQ(default_device(), kCpu);
}

}  // namespace
}  // namespace gpk
