#include "device/device_pool.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "base/error.h"
#include "core/config.h"
#include "core/context.h"
#include "core/stream.h"
#include "device/driver_memory.h"
#include "device/host_memory.h"
#include "device/pool_buffer.h"

namespace gpk::device {
namespace {

std::function<void()>& collect_hook() {
  static auto* hook = new std::function<void()>;
  return *hook;
}

// Fewer, larger chunks are cheaper to map, smaller ones waste less and are evicted one by one:
// 16384 of them are the whole device, within limits. 8 MiB on a GPU of 141 GB, 2 MiB on one of 24
// GB.
std::size_t chunk_bytes_for(std::size_t total_bytes, std::size_t granularity_bytes,
                            std::size_t quota_bytes) {
  constexpr std::size_t kLeast = std::size_t{2} << 20;
  constexpr std::size_t kMost = std::size_t{32} << 20;
  std::size_t chunk = std::clamp(std::bit_floor(total_bytes / 16384 + 1), kLeast, kMost);
  std::size_t all = total_bytes;
  if (quota_bytes != 0) all = std::min(all, quota_bytes);
  // A small device, or a small part of one: at least sixteen chunks, if the granularity allows it.
  chunk = std::min(chunk, std::bit_floor(all / 16 + 1));
  return std::max(chunk, granularity_bytes);
}

runtime::PoolOptions options_for(const runtime::PoolDevice& device, std::size_t total_bytes) {
  const Config& config = Config::get();
  runtime::PoolOptions options;
  options.quota_bytes = config.memory_limit_bytes;
  if (config.memory_limit_fraction > 0.0)
    options.quota_bytes =
        static_cast<std::size_t>(config.memory_limit_fraction * static_cast<double>(total_bytes));
  options.chunk_bytes =
      config.memory_chunk_bytes != 0
          ? std::max<std::size_t>(config.memory_chunk_bytes, device.granularity_bytes())
          : chunk_bytes_for(total_bytes, device.granularity_bytes(), options.quota_bytes);
  options.collect = [] {
    if (collect_hook()) collect_hook()();
  };
  return options;
}

}  // namespace

DevicePool::DevicePool(Device device, std::unique_ptr<runtime::PoolDevice> memory,
                       std::size_t total_bytes)
    : device_(device),
      memory_(std::move(memory)),
      pool_(*memory_, options_for(*memory_, total_bytes)) {}

std::shared_ptr<Buffer> DevicePool::allocate(std::size_t bytes) {
  return std::make_shared<PoolBuffer>(device_, pool_, bytes);
}

std::unique_ptr<CaptureMemory> DevicePool::open_capture() {
  return std::make_unique<PoolCapture>(pool_);
}

void DevicePool::forget_stream(const Stream& stream) { pool_.forget_stream(pool_stream(stream)); }

void PoolCapture::close(std::span<const std::shared_ptr<Stream>> streams) {
  std::vector<runtime::Pool::Stream> users;
  for (const auto& stream : streams) users.push_back(pool_stream(*stream));
  pool_.close(arena_, users);
}

runtime::Pool& device_pool(Device device) {
  return static_cast<DevicePool&>(device_memory(device)).pool();
}

runtime::Pool::Stream pool_stream(const Stream& stream) noexcept {
  return stream.context() == nullptr ? 0 : stream.handle_value();
}

void set_collect_hook(std::function<void()> collect) { collect_hook() = std::move(collect); }

}  // namespace gpk::device

namespace gpk::inline core {

std::unique_ptr<DeviceMemory> make_device_memory(Context& context) {
  return std::make_unique<device::DevicePool>(context.device(), device::make_driver_memory(context),
                                              context.traits().total_memory_bytes);
}

std::unique_ptr<DeviceMemory> make_host_device_memory() {
  const Device host{DeviceKind::kCpu, 0};
  return std::make_unique<device::DevicePool>(host, device::make_host_memory(),
                                              memory_info(host).total_bytes);
}

}  // namespace gpk::inline core
