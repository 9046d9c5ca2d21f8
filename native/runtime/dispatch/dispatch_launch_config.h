// The shape of a launch.
#pragma once

#include <array>
#include <cstdint>

namespace gpk::runtime {

struct LaunchConfig {
  using Dim3 = std::array<std::uint32_t, 3>;
  Dim3 grid{1, 1, 1};
  Dim3 block{256, 1, 1};
  std::uint32_t shared_mem_bytes = 0;
  std::uint64_t stream_id = 0;

  // Enough blocks for `n` items. kValue when n or block_size is 0, or n needs too many blocks.
  [[nodiscard]] static LaunchConfig linear(std::uint64_t n, std::uint32_t block_size = 256);
  [[nodiscard]] static LaunchConfig grid_2d(std::uint32_t width, std::uint32_t height,
                                            std::uint32_t block_x = 16, std::uint32_t block_y = 16);
  // kValue when a dimension is 0, a block has more than 1024 threads, or the grid is too large.
  void check() const;
};

}  // namespace gpk::runtime
