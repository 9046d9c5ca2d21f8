#include "device/transfers.h"

#include <array>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/per_process.h"
#include "base/text.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/stream.h"
#include "core/task_work.h"
#include "core/trace_log.h"
#include "device/steady_clock.h"

namespace gpk::device {
namespace {

using Options = runtime::TransferEngine::Options;
using Key = std::pair<DeviceKind, int>;

Key key(Device device) { return {device.kind, device.index}; }

struct Registry {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<Transfers>> engines;
  std::map<Key, Options> options;
};

Registry& registry() { return per_process<Registry>(); }

void run(runtime::TransferType type, std::uint64_t dst, std::uint64_t src, std::size_t bytes,
         const std::shared_ptr<Stream>& stream) {
  const auto on = transfers(stream->device());
  on->submit(type, dst, src, bytes, stream).wait();
}

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

Transfers::Transfers(Device device, const Options& options)
    : copies_(make_device_copies(device)), engine_(*copies_, steady_clock(), options) {}

runtime::TransferFuture Transfers::submit(runtime::TransferType type, std::uint64_t dst,
                                          std::uint64_t src, std::size_t bytes,
                                          const std::shared_ptr<Stream>& stream,
                                          runtime::TransferEngine::SubmitOptions options) {
  // Asking is cheaper than an event, and a stream without work is the common case.
  if (stream->context() != nullptr && !stream->query())
    options.after = copies_->record_stream(*stream);
  // A closed partition has no share any more.
  if (const auto member = stream->bandwidth_member();
      member && bandwidth_pacer(stream->device()).contains(*member))
    options.member = member;
  auto future = engine_.submit(type, dst, src, bytes, std::move(options));
  if (TaskWork* task = TaskWork::current(); task != nullptr)
    task->note([future] { return future.done(); });
  return future;
}

std::shared_ptr<Transfers> transfers(Device device) {
  if (device.is_cuda()) Context::get(device.index).make_current();  // first, and its errors
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Transfers>& slot = all.engines[key(device)];
  if (!slot) {
    Options options = all.options[key(device)];
    options.bandwidth = &bandwidth_pacer(device);
    slot = std::make_shared<Transfers>(device, options);
  }
  return slot;
}

std::shared_ptr<Transfers> existing_transfers(Device device) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.engines.find(key(device));
  return found == all.engines.end() ? nullptr : found->second;
}

void configure_transfers(Device device, const Options& options) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.engines.find(key(device));
      found != all.engines.end() && found->second != nullptr)
    throw Error(cat("transfer: the engine of ", to_string(device),
                    " is running; configure it before the first transfer"));
  all.options[key(device)] = options;
}

void close_transfers() noexcept {
  Registry& all = registry();
  std::map<Key, std::shared_ptr<Transfers>> engines;
  {
    const std::lock_guard lock(all.mutex);
    engines.swap(all.engines);
  }
  for (const auto& [device, engine] : engines)
    if (engine) engine->close();
}

runtime::SharePacer& bandwidth_pacer(Device device) {
  // The rate is that of a link of the fifth generation; it only scales what is reported.
  constexpr runtime::SharePacer::Options kOptions{
      .capacity_per_ns = 55.0, .burst = static_cast<double>(std::size_t{16} << 20)};
  static auto* mutex = new std::mutex;
  static auto* pacers = new std::map<Key, std::unique_ptr<runtime::SharePacer>>;
  const std::lock_guard lock(*mutex);
  auto& pacer = (*pacers)[key(device)];
  if (!pacer) pacer = std::make_unique<runtime::SharePacer>(steady_clock(), kOptions);
  return *pacer;
}

void upload(cu::DevicePtr dst, const void* src, std::size_t bytes,
            const std::shared_ptr<Stream>& stream) {
  if (bytes == 0) return;
  const TracedCopy traced("to the device", bytes);
  const bool pinned = is_pinned(*stream->context(), src);
  if (bytes >= kEngineMinBytes && !pinned) {
    run(runtime::TransferType::kH2D, dst, address(src), bytes, stream);
    return;
  }
  copy_to_device(dst, src, bytes, *stream);
  // From pageable memory the driver has already taken its copy; from pinned memory it has not.
  if (pinned) stream->synchronize();
}

void download(void* dst, cu::DevicePtr src, std::size_t bytes,
              const std::shared_ptr<Stream>& stream) {
  if (bytes == 0) return;
  const TracedCopy traced("to the host", bytes);
  if (bytes >= kEngineMinBytes && !is_pinned(*stream->context(), dst)) {
    run(runtime::TransferType::kD2H, address(dst), src, bytes, stream);
    stream->context()->check_report(stream->handle());
    return;
  }
  copy_to_host(dst, src, bytes, *stream);
  stream->synchronize();
}

}  // namespace gpk::device
