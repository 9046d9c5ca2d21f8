#include "ops/submit.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "core/graph.h"
#include "core/green_context.h"
#include "core/stream.h"
#include "ops/chain/recorder.h"

namespace gpk::ops {

namespace {

const std::shared_ptr<Stream>& stream_of(std::span<const Array* const> arrays) {
  for (const Array* array : arrays)
    if (array != nullptr) return current_stream(array->device());
  throw Error("submit: no arrays given");
}

void end_uses(std::span<const Array* const> arrays) noexcept {
  for (const Array* array : arrays)
    if (array != nullptr) array->buffer()->end_use();
}

}  // namespace

Submission::Submission(const char* name, std::span<const Array* const> arrays)
    : Submission(name, arrays, stream_of(arrays)) {}

Submission::Submission(const char* name, std::span<const Array* const> arrays,
                       const std::shared_ptr<Stream>& stream)
    : arrays_(arrays), stream_(stream) {
  chain::Recorder::refuse_others(name);
  std::size_t begun = 0;
  try {
    for (; begun < arrays.size(); ++begun)
      if (arrays[begun] != nullptr) arrays[begun]->buffer()->begin_use(stream_);
  } catch (...) {
    end_uses(arrays.first(begun));
    throw;
  }
  if (Graph* graph = capturing_graph(); graph != nullptr) [[unlikely]]
    for (const Array* array : arrays)
      if (array != nullptr) graph->keep(array->buffer());
}

Submission::~Submission() { end_uses(arrays_); }

void submit(const Kernel& kernel, const LaunchConfig& config, std::span<const Array* const> arrays,
            void** params) {
  const Submission submission(kernel.name(), arrays);
  launch(kernel, config, submission.stream(), params);
}

int stream_sms(Device device) {
  const auto green = current_stream(device)->green();
  return green ? static_cast<int>(green->num_sms()) : device_traits(device).multiprocessor_count;
}

LaunchConfig grid_1d(std::int64_t items, std::int64_t per_block, unsigned threads) {
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(ceil_div(items, per_block));
  config.block[0] = threads;
  return config;
}

LaunchConfig dependent(LaunchConfig config, const DeviceTraits& traits) {
  constexpr int kWaves = 4;
  const std::int64_t blocks =
      std::int64_t{config.grid[0]} * config.grid[1] * std::int64_t{config.grid[2]};
  config.programmatic =
      traits.sm >= 90 && blocks <= std::int64_t{kWaves} * traits.multiprocessor_count;
  return config;
}

}  // namespace gpk::ops
