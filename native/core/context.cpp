#include "core/context.h"

#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "core/device_memory.h"
#include "core/graph.h"
#include "core/nvtx.h"
#include "core/stream.h"

namespace gpk::inline core {
namespace {

constexpr int kMaxDevices = 64;

struct Registry {
  std::mutex mutex;
  std::array<std::atomic<Context*>, kMaxDevices> slots{};
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed, like the contexts
  return *instance;
}

}  // namespace

Context& Context::get(int device_index) {
  Registry& all = registry();
  if (device_index >= 0 && device_index < kMaxDevices) {
    auto& slot = all.slots[static_cast<std::size_t>(device_index)];
    if (Context* context = slot.load(std::memory_order_acquire); context != nullptr) [[likely]]
      return *context;
    const std::lock_guard lock(all.mutex);
    if (Context* context = slot.load(std::memory_order_acquire); context != nullptr)
      return *context;
    auto* context = new Context(device_index);  // lives as long as the process
    slot.store(context, std::memory_order_release);
    return *context;
  }
  throw InvalidArgument(cat("device: cuda:", device_index, " does not exist"));
}

std::vector<Context*> Context::all() {
  std::vector<Context*> contexts;
  for (auto& slot : registry().slots)
    if (Context* context = slot.load(std::memory_order_acquire); context != nullptr)
      contexts.push_back(context);
  return contexts;
}

Context::Context(int device_index)
    : device_{DeviceKind::kCuda, device_index}, traits_(device_traits(device_)) {
  if (traits_.sm < kMinSm)
    throw GpuUnavailable(cat("GPU ", device_index, " (", traits_.name, ") has SM ", traits_.sm,
                             "; SM ", kMinSm, " or newer is required"));
  GPK_CU_CHECK(cuDeviceGet, &ordinal_, device_index);
  GPK_CU_CHECK(cuDevicePrimaryCtxRetain, &handle_, ordinal_);
  GPK_CU_CHECK(cuCtxSetCurrent, handle_);
  int least = 0;
  GPK_CU_CHECK(cuCtxGetStreamPriorityRange, &least, &greatest_priority_);
  nvtx::initialize();
  default_ = Stream::make_default(*this);
  memory_ = make_device_memory(*this);
}

Context::~Context() = default;

void Context::synchronize() {
  make_current();
  forbid_in_capture("synchronize", "the work is only being recorded");
  if (num_captures_.load() > 0)
    throw CaptureError("synchronize: another thread is capturing a graph on this device");
  GPK_CU_CHECK(cuCtxSynchronize);
  check_report(nullptr);
}

DeviceReport& Context::make_report() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (DeviceReport* report = report_.load(std::memory_order_acquire); report != nullptr)
    return *report;
  auto* report = new DeviceReport(*this);  // lives as long as the process
  report_.store(report, std::memory_order_release);
  return *report;
}

bool Context::enable_peer_access(Context& peer) {
  if (&peer == this) return true;
  int can = 0;
  GPK_CU_CHECK(cuDeviceCanAccessPeer, &can, ordinal_, peer.ordinal_);
  if (can == 0) return false;
  make_current();
  const cu::Result result = driver().cuCtxEnablePeerAccess(peer.handle_, 0);
  if (result != cu::kPeerAccessAlreadyEnabled) check_cuda(result, "cuCtxEnablePeerAccess");
  return true;
}

void Context::note_launch(const char* name, const unsigned grid[3], const unsigned block[3],
                          cu::Stream stream) noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  // Two threads may claim the same record: then one launch is missing from a message.
  const std::uint64_t number = num_launches_.load(kRelaxed);
  num_launches_.store(number + 1, kRelaxed);
  LaunchRecord& record = records_[number % kNumRecords];
  for (int i = 0; i < 3; ++i) {
    record.grid[i].store(grid[i], kRelaxed);
    record.block[i].store(block[i], kRelaxed);
  }
  record.stream.store(stream, kRelaxed);
  record.name.store(name, kRelaxed);
}

std::vector<std::string> Context::recent_launches() const {
  std::vector<std::string> lines;
  const std::uint64_t total = num_launches_.load(std::memory_order_relaxed);
  for (std::uint64_t back = 1; back <= total && back <= 4; ++back) {
    const LaunchRecord& r = records_[(total - back) % kNumRecords];
    const char* name = r.name.load(std::memory_order_relaxed);
    if (name == nullptr) continue;
    const auto triple = [](const std::atomic<unsigned>* v) {
      return cat('(', v[0].load(), ',', v[1].load(), ',', v[2].load(), ')');
    };
    char stream[32];
    std::snprintf(stream, sizeof stream, "0x%llx",
                  static_cast<unsigned long long>(
                      reinterpret_cast<std::uintptr_t>(r.stream.load(std::memory_order_relaxed))));
    lines.push_back(
        cat(name, "<<<", triple(r.grid), ", ", triple(r.block), ">>> on stream ", stream));
  }
  return lines;
}

void Context::mark_dead(const std::string& cause) noexcept {
  const std::lock_guard lock(cause_mutex_);
  if (dead_.load(std::memory_order_relaxed)) return;  // the first cause wins
  try {
    cause_ = cause;
  } catch (...) {  // out of memory: dead without a cause is still dead
  }
  dead_.store(true, std::memory_order_release);
}

void Context::throw_lost() const {
  std::string cause;
  {
    const std::lock_guard lock(cause_mutex_);
    cause = cause_;
  }
  throw DeviceLostError(cat("cuda:", device_.index, " is lost since ", cause,
                            "; start a new process to use it again"),
                        cu::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "", {});
}

Context* Context::current_or_null() noexcept {
  try {
    cu::Context current = nullptr;
    if (driver().cuCtxGetCurrent(&current) != cu::kSuccess || current == nullptr) return nullptr;
    for (auto& slot : registry().slots)
      if (Context* context = slot.load(std::memory_order_acquire);
          context != nullptr && context->handle_ == current)
        return context;
  } catch (...) {  // no driver, no context
  }
  return nullptr;
}

void Context::forget_all_for_testing() {
  reset_devices_for_testing();
  reset_streams_for_testing();
  const std::lock_guard lock(registry().mutex);
  for (auto& slot : registry().slots) slot = nullptr;  // leaked on purpose: handles may remain
}

}  // namespace gpk::inline core
