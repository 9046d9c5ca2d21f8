#include "bindings/runtime_launch.h"

#include "core/check.h"
#include "core/context.h"
#include "core/error.h"
#include "core/gated_work.h"
#include "core/kernel_trace.h"
#include "core/text.h"

namespace gpk::bind {
namespace {

// Handles of Python functions: no address a driver gives out starts with these bits.
constexpr std::uint64_t kFunctionBit = std::uint64_t{1} << 63;

runtime::LaunchConfig::Dim3 launch_dim3(const LaunchDims& dims, const char* what) {
  runtime::LaunchConfig::Dim3 out{1, 1, 1};
  if (const auto* one = std::get_if<std::uint32_t>(&dims)) {
    out[0] = *one;
    return out;
  }
  const auto& sizes = std::get<std::vector<std::uint32_t>>(dims);
  if (sizes.empty() || sizes.size() > 3)
    throw InvalidArgument(
        cat("LaunchConfig: ", what, " has ", sizes.size(), " sizes, expected 1 to 3"));
  for (std::size_t i = 0; i < sizes.size(); ++i) out[i] = sizes[i];
  return out;
}

}  // namespace

runtime::LaunchConfig launch_config(const LaunchDims& grid, const LaunchDims& block,
                                    std::uint32_t shared_mem_bytes, std::uint64_t stream_id) {
  runtime::LaunchConfig config;
  config.grid = launch_dim3(grid, "grid");
  config.block = launch_dim3(block, "block");
  config.shared_mem_bytes = shared_mem_bytes;
  config.stream_id = stream_id;
  config.check();
  return config;
}

void launch_raw(std::uint64_t function, const runtime::LaunchConfig& config,
                std::vector<std::uint64_t> args, Stream& stream) {
  if (stream.context() == nullptr)
    throw GpuUnavailable(cat("launch: ", function,
                             " is taken for a CUfunction, and CPU simulation has none; pass a "
                             "Python callable or a jit kernel with reference="));
  if (function == 0) throw InvalidArgument("launch: the function's address is 0");
  std::vector<void*> params;
  params.reserve(args.size());
  for (std::uint64_t& arg : args) params.push_back(&arg);
  stream.context()->make_current();
  GatedWork work(stream);
  stream.context()->note_launch("raw function", config.grid.data(), config.block.data(),
                                stream.handle());
  TracedKernel traced("raw function", config.grid.data(), config.block.data(), stream);
  GPK_CU_CHECK(cuLaunchKernel,
               reinterpret_cast<cu::Function>(static_cast<std::uintptr_t>(function)),
               config.grid[0], config.grid[1], config.grid[2], config.block[0], config.block[1],
               config.block[2], config.shared_mem_bytes, stream.handle(), params.data(), nullptr);
  traced.submitted();
  work.submitted();
}

void StreamLauncher::set_stream(std::uint64_t stream_id, std::shared_ptr<Stream> stream) {
  const std::lock_guard lock(mutex_);
  streams_[stream_id] = std::move(stream);
}

std::uint64_t StreamLauncher::add_function(py::handle function) {
  std::shared_ptr<void> kept = keep_alive(function);
  const std::lock_guard lock(mutex_);
  const std::uint64_t handle = kFunctionBit | next_function_++;
  functions_.emplace(handle, std::move(kept));
  return handle;
}

StreamLauncher::EventId StreamLauncher::launch(const runtime::KernelLaunchRequest& request) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<void> function;
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(request.config.stream_id);
    if (found == streams_.end())
      throw InvalidArgument(cat("KernelDispatcher: stream ", request.config.stream_id,
                                " has no real stream; attach_stream() gives it one"));
    stream = found->second;
    const auto known = functions_.find(request.kernel_handle);
    if (known != functions_.end()) function = known->second;
  }
  if (function != nullptr) {
    const StreamScope scope(stream);
    const WithGil gil;
    py::tuple args(request.args.size());
    for (std::size_t i = 0; i < request.args.size(); ++i) args[i] = request.args[i];
    call_function(static_cast<PyObject*>(function.get()), args);
  } else {
    launch_raw(request.kernel_handle, request.config, request.args, *stream);
  }
  auto event = Event::create(stream->device(), {.timing = false, .blocking_sync = false});
  event->record(*stream);
  const std::lock_guard lock(mutex_);
  events_.emplace(next_event_, std::move(event));
  return next_event_++;
}

std::shared_ptr<Event> StreamLauncher::find(EventId id) {
  const std::lock_guard lock(mutex_);
  return events_.at(id);
}

bool StreamLauncher::poll(EventId event) { return find(event)->query(); }
void StreamLauncher::wait(EventId event) { find(event)->synchronize(); }

void StreamLauncher::release(EventId event) noexcept {
  std::shared_ptr<Event> gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  gone = std::move(found->second);
  events_.erase(found);
}

}  // namespace gpk::bind
