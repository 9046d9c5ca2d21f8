// Kernel launches. LaunchConfig is a value; launch() is the only caller of the driver's launch
// functions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/module.h"
#include "core/stream.h"

namespace gpk::inline core {

struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned cluster[3] = {0, 0, 0};  // all zero: no cluster
  std::size_t shared_bytes = 0;     // dynamic
  bool cooperative = false;         // all blocks resident at once (grid-wide barriers)
  // Programmatic dependent launch: the kernel may start before its predecessor in the stream has
  // ended. Only for kernels that execute griddepcontrol.wait.
  bool programmatic = false;
};

// Throws InvalidArgument, naming the kernel, for anything the GPU would reject: empty or too large
// grid, block or cluster, too much shared memory.
void check_launch(const Kernel& kernel, const LaunchConfig& config);

// The part that needs no compiled kernel: sizes against a device's limits.
void check_sizes(const char* name, const LaunchConfig& config, const DeviceTraits& traits,
                 int max_threads);

// Same of a cluster, if there is one: at most 16 blocks, which divide the grid.
void check_cluster_sizes(const char* name, const LaunchConfig& config);

// Checks and submits. `params` points at the arguments, one pointer each, in order.
void launch(const Kernel& kernel, const LaunchConfig& config, const std::shared_ptr<Stream>& stream,
            void** params);

// Same without check_launch, for configs already checked with this kernel.
void launch_checked(const Kernel& kernel, const LaunchConfig& config,
                    const std::shared_ptr<Stream>& stream, void** params);

// launch_args(kernel, config, stream, x, n): arguments must have the exact parameter types.
template <class... Args>
void launch_args(const Kernel& kernel, const LaunchConfig& config,
                 const std::shared_ptr<Stream>& stream, Args... args) {
  void* params[] = {static_cast<void*>(&args)...};
  launch(kernel, config, stream, params);
}

}  // namespace gpk::inline core
