#include "runtime/dispatch/dispatch_launch_config.h"

#include <algorithm>
#include <string>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

constexpr std::uint64_t kMaxGridX = 2147483647;  // limits of every CUDA device since SM 3.0
constexpr std::uint32_t kMaxGridYZ = 65535;
constexpr std::uint64_t kMaxThreadsPerBlock = 1024;

std::string to_text(const LaunchConfig::Dim3& dim) {
  return "(" + std::to_string(dim[0]) + ", " + std::to_string(dim[1]) + ", " +
         std::to_string(dim[2]) + ")";
}

}  // namespace

LaunchConfig LaunchConfig::linear(std::uint64_t n, std::uint32_t block_size) {
  if (n == 0 || block_size == 0)
    throw Error(Error::Kind::kValue,
                "LaunchConfig: linear needs items and threads, got n=" + std::to_string(n) +
                    ", block_size=" + std::to_string(block_size));
  const std::uint64_t num_blocks = (n - 1) / block_size + 1;
  if (num_blocks > kMaxGridX)
    throw Error(Error::Kind::kValue, "LaunchConfig: " + std::to_string(n) + " items need " +
                                         std::to_string(num_blocks) +
                                         " blocks, more than a grid has");
  LaunchConfig config;
  config.grid = {static_cast<std::uint32_t>(num_blocks), 1, 1};
  config.block = {block_size, 1, 1};
  config.check();
  return config;
}

LaunchConfig LaunchConfig::grid_2d(std::uint32_t width, std::uint32_t height, std::uint32_t block_x,
                                   std::uint32_t block_y) {
  if (width == 0 || height == 0 || block_x == 0 || block_y == 0)
    throw Error(Error::Kind::kValue, "LaunchConfig: grid_2d needs sizes above 0");
  LaunchConfig config;
  config.grid = {(width - 1) / block_x + 1, (height - 1) / block_y + 1, 1};
  config.block = {block_x, block_y, 1};
  config.check();
  return config;
}

void LaunchConfig::check() const {
  const std::uint64_t threads = std::uint64_t{block[0]} * block[1] * block[2];
  const bool grid_ok = grid[0] > 0 && grid[1] > 0 && grid[2] > 0 && grid[0] <= kMaxGridX &&
                       grid[1] <= kMaxGridYZ && grid[2] <= kMaxGridYZ;
  // Each side is checked first: the product of three may overflow.
  const bool block_ok = std::all_of(block.begin(), block.end(),
                                    [](std::uint32_t side) { return side <= kMaxThreadsPerBlock; });
  if (grid_ok && block_ok && threads > 0 && threads <= kMaxThreadsPerBlock) return;
  throw Error(Error::Kind::kValue,
              "LaunchConfig: no such launch: grid " + to_text(grid) + ", block " + to_text(block));
}

}  // namespace gpk::runtime
