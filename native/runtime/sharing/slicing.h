// Splits long kernels into slices, so that other work runs in between.
#pragma once

#include <cstdint>

namespace gpk::runtime {

// `total_tiles` split into nearly equal runs of whole tiles.
struct SlicePlan {
  std::uint64_t total_tiles = 0;
  std::uint64_t num_slices = 0;

  struct Range {
    std::uint64_t first_tile;
    std::uint64_t num_tiles;
  };
  // kValue when index >= num_slices. Ranges are consecutive and differ by at most one tile.
  [[nodiscard]] Range slice(std::uint64_t index) const;
};

// The fewest slices of at most `max_slice_ns` each, given the cost of a tile; a tile that costs
// more is a slice by itself. A cost of 0 means unknown: one slice. No tiles: no slices. kValue when
// a time is not finite or negative, or max_slice_ns is 0.
[[nodiscard]] SlicePlan plan_slices(std::uint64_t total_tiles, double tile_cost_ns,
                                    double max_slice_ns);

}  // namespace gpk::runtime
