#include "core/device.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/config.h"
#include "core/context.h"
#include "core/log.h"

#ifndef _WIN32
#include <unistd.h>
#endif

namespace gpk::inline core {
namespace {

// Index + 1 of the default GPU, 0 for the CPU, -1 while undecided: read on every allocation.
std::atomic<int> g_default{-1};

void publish(Device device) { g_default = device.is_cuda() ? device.index + 1 : 0; }

struct Devices {
  std::mutex mutex;
  std::map<int, std::unique_ptr<const DeviceTraits>> cuda;
  std::optional<DeviceChoiceResult> choice;
};

Devices& devices() {
  static auto* instance = new Devices;  // never destroyed: references escape
  return *instance;
}

MemoryInfo host_memory() {
#ifdef _WIN32
  return {std::size_t{8} << 30, std::size_t{8} << 30};
#else
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return {static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
          static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page};
#endif
}

const DeviceTraits& cpu_traits() {
  static const auto* traits = new DeviceTraits{
      .name = "CPU Simulation",
      .pci_bus_id = {},
      .total_memory_bytes = host_memory().total_bytes,
      .multiprocessor_count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency())),
      .max_threads_per_sm = 2048,
  };
  return *traits;
}

int attribute(cu::Device device, int id) {
  int value = 0;
  GPK_CU_CHECK(cuDeviceGetAttribute, &value, id, device);
  return value;
}

DeviceTraits read_traits(int index) {
  cu::Device device = 0;
  GPK_CU_CHECK(cuDeviceGet, &device, index);
  DeviceTraits t;
  char text[256] = {};
  GPK_CU_CHECK(cuDeviceGetName, text, static_cast<int>(sizeof text) - 1, device);
  t.name = text;
  GPK_CU_CHECK(cuDeviceGetPCIBusId, text, static_cast<int>(sizeof text) - 1, device);
  t.pci_bus_id = text;
  GPK_CU_CHECK(cuDeviceTotalMem, &t.total_memory_bytes, device);
  const auto size = [&](int id) { return static_cast<std::size_t>(attribute(device, id)); };
  t.sm = attribute(device, cu::kAttrComputeCapabilityMajor) * 10 +
         attribute(device, cu::kAttrComputeCapabilityMinor);
  t.multiprocessor_count = attribute(device, cu::kAttrMultiprocessorCount);
  t.warp_size = attribute(device, cu::kAttrWarpSize);
  t.max_threads_per_block = attribute(device, cu::kAttrMaxThreadsPerBlock);
  t.max_threads_per_sm = attribute(device, cu::kAttrMaxThreadsPerSm);
  for (int axis = 0; axis < 3; ++axis) {
    t.max_block[axis] = attribute(device, cu::kAttrMaxBlockDimX + axis);
    t.max_grid[axis] = attribute(device, cu::kAttrMaxGridDimX + axis);
  }
  t.shared_per_block_bytes = size(cu::kAttrMaxSharedPerBlock);
  t.shared_per_block_optin_bytes = size(cu::kAttrMaxSharedPerBlockOptin);
  t.shared_per_sm_bytes = size(cu::kAttrMaxSharedPerSm);
  t.l2_bytes = size(cu::kAttrL2CacheBytes);
  t.cooperative_launch = attribute(device, cu::kAttrCooperativeLaunch) != 0;
  t.virtual_memory = attribute(device, cu::kAttrVirtualMemory) != 0;
  t.cluster_launch = t.sm >= 90 && attribute(device, cu::kAttrClusterLaunch) != 0;
  return t;
}

// Why GPU 0 cannot be used; empty if it can.
std::string gpu_problem() {
  const DriverInfo& info = driver_info();
  if (!info.problem.empty()) return info.problem;
  const DeviceTraits& traits = device_traits({DeviceKind::kCuda, 0});
  if (traits.sm >= kMinSm) return {};
  return cat("GPU 0 (", traits.name, ") has SM ", traits.sm, "; SM ", kMinSm,
             " or newer is required");
}

DeviceChoiceResult choose() {
  const Config& config = Config::get();
  const Device cpu{DeviceKind::kCpu, 0};
  if (config.device == DeviceChoice::kCpu) return {cpu, "PYGPUKIT_DEVICE=cpu"};
  if (const std::string problem = gpu_problem(); !problem.empty()) {
    const bool asked = config.device == DeviceChoice::kCuda || config.device == DeviceChoice::kSim;
    if (asked || config.require_gpu)
      throw GpuUnavailable(cat(problem, "\nA GPU is required by ",
                               config.require_gpu                     ? "PYGPUKIT_REQUIRE_GPU=1"
                               : config.device == DeviceChoice::kCuda ? "PYGPUKIT_DEVICE=cuda"
                                                                      : "PYGPUKIT_DEVICE=sim"));
    log_message(LogLevel::kInfo, cat(problem, "\nFalling back to CPU simulation backend"));
    return {cpu, cat(problem, "\nFalling back to CPU simulation backend")};
  }
  const Device gpu{DeviceKind::kCuda, 0};
  const DeviceTraits& traits = device_traits(gpu);
  return {gpu, cat("GPU 0: ", traits.name, " (SM ", traits.sm, ")")};
}

}  // namespace

std::string to_string(Device device) {
  return device.is_cuda() ? cat("cuda:", device.index) : std::string("cpu");
}

int cuda_device_count() {
  const DriverInfo& info = driver_info();
  return info.problem.empty() ? info.device_count : 0;
}

const DeviceTraits& device_traits(Device device) {
  if (!device.is_cuda()) return cpu_traits();
  driver();  // throws with the reason where there is no driver
  if (device.index < 0 || device.index >= cuda_device_count())
    throw InvalidArgument(cat("device: cuda:", device.index, " does not exist, there are ",
                              cuda_device_count(), " GPUs"));
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  auto& slot = all.cuda[device.index];
  if (!slot) slot = std::make_unique<const DeviceTraits>(read_traits(device.index));
  return *slot;
}

MemoryInfo memory_info(Device device) {
  if (!device.is_cuda()) return host_memory();
  Context::get(device.index).make_current();
  MemoryInfo info;
  GPK_CU_CHECK(cuMemGetInfo, &info.free_bytes, &info.total_bytes);
  return info;
}

const DeviceChoiceResult& default_device_choice() {
  Devices& all = devices();
  {
    const std::lock_guard lock(all.mutex);
    if (all.choice) return *all.choice;
  }
  DeviceChoiceResult choice = choose();
  const std::lock_guard lock(all.mutex);
  if (!all.choice) all.choice = std::move(choice);
  publish(all.choice->device);
  return *all.choice;
}

Device default_device() {
  const int packed = g_default.load(std::memory_order_relaxed);
  if (packed < 0) [[unlikely]]
    return default_device_choice().device;
  return packed == 0 ? Device{DeviceKind::kCpu, 0} : Device{DeviceKind::kCuda, packed - 1};
}

void set_default_device(Device device) {
  device_traits(device);  // throws when it does not exist
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  all.choice = DeviceChoiceResult{device, "chosen by the program"};
  publish(device);
}

void reset_devices_for_testing() {
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  all.cuda.clear();
  all.choice.reset();
  g_default = -1;
}

}  // namespace gpk::inline core
