#include "runtime/sharing/slicing.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace gpk::runtime {
namespace {

[[noreturn]] void throw_value(const std::string& message) {
  throw Error(Error::Kind::kValue, message);
}

}  // namespace

SlicePlan::Range SlicePlan::slice(std::uint64_t index) const {
  if (index >= num_slices)
    throw_value("SlicePlan: no slice " + std::to_string(index) + " of " +
                std::to_string(num_slices));
  const std::uint64_t even = total_tiles / num_slices;
  const std::uint64_t longer = total_tiles % num_slices;  // the first ones have one more tile
  return {index * even + std::min(index, longer), even + (index < longer ? 1 : 0)};
}

SlicePlan plan_slices(std::uint64_t total_tiles, double tile_cost_ns, double max_slice_ns) {
  if (!std::isfinite(tile_cost_ns) || tile_cost_ns < 0.0 || !std::isfinite(max_slice_ns) ||
      max_slice_ns <= 0.0)
    throw_value("plan_slices: needs tile_cost_ns >= 0 and max_slice_ns > 0, got " +
                std::to_string(tile_cost_ns) + " and " + std::to_string(max_slice_ns));
  if (total_tiles == 0) return {};
  if (tile_cost_ns == 0.0) return {total_tiles, 1};
  const double fit = std::floor(max_slice_ns / tile_cost_ns);
  if (fit >= static_cast<double>(total_tiles)) return {total_tiles, 1};
  const std::uint64_t tiles_per_slice = fit < 1.0 ? 1 : static_cast<std::uint64_t>(fit);
  return {total_tiles, (total_tiles - 1) / tiles_per_slice + 1};
}

}  // namespace gpk::runtime
