// Long kernels in slices, so that others get their turn in between.
#pragma once

#include <cstdint>

namespace gpk::runtime {

// `total_tiles` cut into nearly equal runs of whole tiles.
struct SlicePlan {
  std::uint64_t total_tiles = 0;
  std::uint64_t num_slices = 0;

  struct Range {
    std::uint64_t first_tile;
    std::uint64_t num_tiles;
  };
  // kValue when index >= num_slices. Ranges follow one another and differ by a tile at most.
  [[nodiscard]] Range slice(std::uint64_t index) const;
};

// The fewest slices of at most `max_slice_ns` each, given what a tile costs; a tile that alone
// costs more is a slice by itself. A cost of 0 is unknown: one slice. No tiles: no slices. kValue
// when a time is not finite or negative, or max_slice_ns is 0.
[[nodiscard]] SlicePlan plan_slices(std::uint64_t total_tiles, double tile_cost_ns,
                                    double max_slice_ns);

}  // namespace gpk::runtime
