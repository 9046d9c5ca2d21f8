#include "core/launch.h"

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/config.h"
#include "core/context.h"
#include "core/gated_work.h"
#include "core/graph.h"
#include "core/kernel_trace.h"
#include "core/nvtx.h"

namespace gpk::inline core {
namespace {

std::string triple(const unsigned v[3]) { return cat('(', v[0], ", ", v[1], ", ", v[2], ')'); }

[[noreturn]] void refuse(const Kernel& kernel, const std::string& what) {
  throw InvalidArgument(cat(kernel.name(), ": ", what));
}

void check_cluster(const Kernel& kernel, const LaunchConfig& config) {
  const unsigned* c = config.cluster;
  if (!kernel.context().traits().cluster_launch)
    refuse(kernel, cat("cluster is ", triple(c), ", ", kernel.context().traits().name,
                       " has no clusters (SM 90 or newer)"));
  check_cluster_sizes(kernel.name(), config);
  if (std::size_t{c[0]} * c[1] * c[2] > 8) kernel.allow_large_clusters();
}

bool has_cluster(const LaunchConfig& c) {
  return (c.cluster[0] | c.cluster[1] | c.cluster[2]) != 0;
}

cu::Result submit_with_attributes(const Kernel& kernel, const LaunchConfig& config,
                                  cu::Stream stream, void** params) {
  if (driver().cuLaunchKernelEx == nullptr)
    refuse(kernel, "clusters, cooperative and programmatic launches need a newer driver");
  cu::LaunchAttribute attributes[3] = {};
  unsigned count = 0;
  if (has_cluster(config)) {
    attributes[count].id = cu::kLaunchClusterDimension;
    attributes[count++].value.cluster = {config.cluster[0], config.cluster[1], config.cluster[2]};
  }
  if (config.cooperative) {
    attributes[count].id = cu::kLaunchCooperative;
    attributes[count++].value.flag = 1;
  }
  if (config.programmatic) {
    attributes[count].id = cu::kLaunchProgrammaticStreamSerialization;
    attributes[count++].value.flag = 1;
  }
  const cu::LaunchConfig native{
      .grid = {config.grid[0], config.grid[1], config.grid[2]},
      .block = {config.block[0], config.block[1], config.block[2]},
      .shared_bytes = static_cast<unsigned>(config.shared_bytes),
      .stream = stream,
      .attributes = attributes,
      .num_attributes = count,
  };
  return driver().cuLaunchKernelEx(&native, kernel.function(), params, nullptr);
}

bool launch_blocking() {
  static const bool blocking = Config::get().launch_blocking;
  return blocking;
}

}  // namespace

void check_sizes(const char* name, const LaunchConfig& config, const DeviceTraits& traits,
                 int max_threads) {
  const auto check_axes = [&](const char* what, const unsigned* given, const int* limit) {
    for (int axis = 0; axis < 3; ++axis)
      if (given[axis] == 0 || given[axis] > static_cast<unsigned>(limit[axis]))
        throw InvalidArgument(cat(name, ": ", what, " is ", triple(given),
                                  ", each size must be 1 to (", limit[0], ", ", limit[1], ", ",
                                  limit[2], ")"));
  };
  check_axes("grid", config.grid, traits.max_grid);
  check_axes("block", config.block, traits.max_block);
  const unsigned* b = config.block;
  const std::size_t threads = std::size_t{b[0]} * b[1] * b[2];
  if (threads > static_cast<std::size_t>(max_threads))
    throw InvalidArgument(cat(name, ": block ", triple(b), " has ", threads,
                              " threads, this kernel allows ", max_threads));
}

void check_cluster_sizes(const char* name, const LaunchConfig& config) {
  if (!has_cluster(config)) return;
  const unsigned* c = config.cluster;
  const std::size_t blocks = std::size_t{c[0]} * c[1] * c[2];
  if (blocks == 0 || blocks > 16)
    throw InvalidArgument(cat(name, ": cluster is ", triple(c), ", expected 1 to 16 blocks"));
  for (int axis = 0; axis < 3; ++axis)
    if (config.grid[axis] % c[axis] != 0)
      throw InvalidArgument(
          cat(name, ": grid ", triple(config.grid), " is not a multiple of cluster ", triple(c)));
}

void check_launch(const Kernel& kernel, const LaunchConfig& config) {
  check_sizes(kernel.name(), config, kernel.context().traits(),
              kernel.attributes().max_threads_per_block);
  if (config.shared_bytes > 0) kernel.allow_shared(config.shared_bytes);
  if (has_cluster(config)) check_cluster(kernel, config);
}

void launch_checked(const Kernel& kernel, const LaunchConfig& config,
                    const std::shared_ptr<Stream>& stream, void** params) {
  Context& context = kernel.context();
  context.make_current();
  GatedWork work(*stream);
  const nvtx::Range range(kernel.name());
  TracedKernel traced(kernel.name(), config.grid, config.block, *stream);
  context.note_launch(kernel.name(), config.grid, config.block, stream->handle());
  const bool plain = !has_cluster(config) && !config.cooperative && !config.programmatic;
  const cu::Result result =
      plain ? driver().cuLaunchKernel(kernel.function(), config.grid[0], config.grid[1],
                                      config.grid[2], config.block[0], config.block[1],
                                      config.block[2], static_cast<unsigned>(config.shared_bytes),
                                      stream->handle(), params, nullptr)
            : submit_with_attributes(kernel, config, stream->handle(), params);
  if (result != cu::kSuccess) [[unlikely]]
    throw_cuda_error(result, plain ? "cuLaunchKernel" : "cuLaunchKernelEx");
  traced.submitted();
  work.submitted();
  if (Graph* graph = capturing_graph(); graph != nullptr) [[unlikely]]
    graph->note_launch(kernel, config, *stream);
  if (launch_blocking()) [[unlikely]]
    if (capturing_graph() == nullptr) {
      GPK_CU_CHECK(cuStreamSynchronize, stream->handle());
      stream->context()->check_report(stream->handle());
    }
}

void launch(const Kernel& kernel, const LaunchConfig& config, const std::shared_ptr<Stream>& stream,
            void** params) {
  check_launch(kernel, config);
  launch_checked(kernel, config, stream, params);
}

}  // namespace gpk::inline core
