#include "core/device_pool.h"

#include <utility>

#include "core/config.h"
#include "core/context.h"
#include "core/driver_memory.h"
#include "core/error.h"
#include "core/host_memory.h"
#include "core/stream.h"

namespace gpk {
namespace {

std::function<void()>& collect_hook() {
  static auto* hook = new std::function<void()>;
  return *hook;
}

runtime::PoolOptions options_for(std::size_t total_bytes) {
  const Config& config = Config::get();
  runtime::PoolOptions options;
  options.quota_bytes = config.memory_limit_bytes;
  if (config.memory_limit_fraction > 0.0)
    options.quota_bytes =
        static_cast<std::size_t>(config.memory_limit_fraction * static_cast<double>(total_bytes));
  options.collect = [] {
    if (collect_hook()) collect_hook()();
  };
  return options;
}

}  // namespace

DevicePool::DevicePool(Context& context)
    : memory_(make_driver_memory(context)),
      pool_(*memory_, options_for(context.traits().total_memory_bytes)) {}

DevicePool::DevicePool()
    : memory_(make_host_memory()),
      pool_(*memory_, options_for(memory_info({DeviceKind::kCpu, 0}).total_bytes)) {}

runtime::Pool& device_pool(Device device) {
  if (device.is_cuda()) return Context::get(device.index).pool();
  static auto* host = new DevicePool;  // outlives arrays dropped at exit
  return **host;
}

runtime::Pool::Stream pool_stream(const Stream& stream) noexcept { return stream.handle_value(); }

void set_collect_hook(std::function<void()> collect) { collect_hook() = std::move(collect); }

void throw_out_of_memory(const runtime::PoolOutOfMemory& error, const char* op) {
  const runtime::PoolOutOfMemory::Numbers& from = error.numbers();
  OutOfMemory::Numbers numbers;
  numbers.asked_bytes = from.asked_bytes;
  numbers.used_bytes = from.used_bytes;
  numbers.cached_bytes = from.cached_bytes;
  numbers.largest_free_bytes = from.largest_free_bytes;
  numbers.limit_bytes = from.account_refused ? from.account.limit_bytes : from.limit_bytes;
  numbers.device_free_bytes = from.device_free_bytes;
  throw OutOfMemory(op, numbers);
}

}  // namespace gpk
