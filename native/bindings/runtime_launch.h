// Launches of CUfunctions given by address.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "bindings/python.h"
#include "core/launch.h"
#include "core/stream.h"

namespace gpk::bind {

// 4, (4,), (4, 2) or (4, 2, 1).
using LaunchDims = std::variant<std::uint32_t, std::vector<std::uint32_t>>;

// Throws InvalidArgument for more than three sizes.
LaunchConfig launch_config(const LaunchDims& grid, const LaunchDims& block,
                           std::size_t shared_bytes);

// Every argument is passed by the address of its 8 bytes, of which the kernel reads the low ones.
// Throws InvalidArgument for sizes out of range, GpuUnavailable on the CPU backend.
void launch_raw(std::uint64_t function, const LaunchConfig& config, std::vector<std::uint64_t> args,
                Stream& stream);

}  // namespace gpk::bind
