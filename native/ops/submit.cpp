#include "ops/submit.h"

#include "core/context.h"
#include "core/graph.h"
#include "core/stream.h"

namespace gpk::ops {

const std::shared_ptr<Stream>& use_on_stream(std::span<const Array* const> arrays) {
  const Array* first = nullptr;
  for (const Array* array : arrays)
    if (first == nullptr) first = array;
  const auto& stream = current_stream(first->device());
  for (const Array* array : arrays)
    if (array != nullptr) array->buffer()->mark_use(stream);
  if (Graph* graph = capturing_graph(); graph != nullptr) [[unlikely]]
    for (const Array* array : arrays)
      if (array != nullptr) graph->keep(array->buffer());
  return stream;
}

void submit(const Kernel& kernel, const LaunchConfig& config, std::span<const Array* const> arrays,
            void** params) {
  launch(kernel, config, use_on_stream(arrays), params);
}

LaunchConfig grid_1d(std::int64_t items, std::int64_t per_block, unsigned threads) {
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>((items + per_block - 1) / per_block);
  config.block[0] = threads;
  return config;
}

}  // namespace gpk::ops
