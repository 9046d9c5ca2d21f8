// Devices: CUDA GPUs, and the CPU (simulation backend).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpk::inline core {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;

  [[nodiscard]] bool is_cuda() const noexcept { return kind == DeviceKind::kCuda; }
  friend bool operator==(const Device&, const Device&) = default;
};

// "cuda:0" or "cpu".
std::string to_string(Device device);

// What launch planning and reports need to know; read once per device.
struct DeviceTraits {
  std::string name;
  std::string pci_bus_id;  // empty on the CPU
  std::size_t total_memory_bytes = 0;
  int sm = 0;  // 90 for compute capability 9.0; 0 on the CPU
  int multiprocessor_count = 0;
  int warp_size = 32;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 0;
  int max_block[3] = {1024, 1024, 64};
  int max_grid[3] = {2147483647, 65535, 65535};
  std::size_t shared_per_block_bytes = 49152;
  std::size_t shared_per_block_optin_bytes = 49152;
  std::size_t shared_per_sm_bytes = 0;
  std::size_t l2_bytes = 0;
  bool cooperative_launch = false;
  bool virtual_memory = false;  // addresses can be mapped and unmapped
  bool cluster_launch = false;
};

// Oldest architecture we support.
inline constexpr int kMinSm = 80;

// Number of GPUs visible to the driver; 0 without a driver. Never throws.
int cuda_device_count();

// Traits of a GPU or of the CPU. Throws InvalidArgument for an index out of range and
// GpuUnavailable without a driver. The reference stays valid for the life of the process.
const DeviceTraits& device_traits(Device device);

// (free, total) bytes now: the driver's figures on a GPU, the machine's on the CPU.
struct MemoryInfo {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};
MemoryInfo memory_info(Device device);

// Where new arrays go, and why.
struct DeviceChoiceResult {
  Device device;
  std::string
      reason;  // "GPU 0: NVIDIA H200 (SM 90)", "CUDA driver not detected ... Falling back ..."
};

// Decided on first use from Config and the driver. Throws GpuUnavailable when a GPU is required
// (PYGPUKIT_DEVICE=cuda, PYGPUKIT_REQUIRE_GPU=1) and none is usable; the next call tries again.
const DeviceChoiceResult& default_device_choice();
Device default_device();

// Sets the process-wide default, overriding the environment.
void set_default_device(Device device);

// Clears traits and the choice. For tests only.
void reset_devices_for_testing();

}  // namespace gpk::inline core
