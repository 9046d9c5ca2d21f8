#include "ops/conv/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/ceil_div.h"
#include "base/text.h"

namespace gpk::ops::conv {
namespace {

using kernels::ConvTiles;
using kernels::kConvLineBytes;

constexpr int kImageWidth = 16;  // of a tile
constexpr std::int64_t kMaxGridY = 65535;

int narrow(std::int64_t x) { return static_cast<int>(x); }

// A transposed convolution as a plain one with a row for each phase of the stride.
ConvTiles tiles_of(const ConvDesc& desc, const MmaShape& shape, bool image) {
  ConvTiles t{};
  t.phases = desc.transposed ? narrow(desc.stride_w) : 1;
  t.rows = narrow(desc.out_channels) * t.phases;
  t.taps_h = narrow(desc.kernel_h);
  t.taps_w = narrow(ceil_div(desc.kernel_w, t.phases));
  t.stride_h = narrow(desc.stride_h);
  t.stride_w = desc.transposed ? 1 : narrow(desc.stride_w);
  t.pad_h = narrow(desc.pad_h);
  t.pad_w = desc.transposed ? t.taps_w - 1 : narrow(desc.pad_w);
  t.dilation_h = narrow(desc.dilation_h);
  t.dilation_w = narrow(desc.dilation_w);
  t.out_first = desc.transposed ? -narrow(desc.pad_w) : 0;
  t.positions_h = narrow(desc.out_h);
  t.positions_w = narrow(ceil_div(desc.out_w - t.out_first, t.phases));
  const int tile_w = image ? kImageWidth : shape.n;
  const int tile_h = shape.n / tile_w;
  t.tiles_h = narrow(ceil_div(t.positions_h, tile_h));
  t.tiles_w = narrow(ceil_div(t.positions_w, tile_w));
  t.tiles_m = narrow(ceil_div(t.rows, shape.m));
  t.k_blocks =
      narrow(ceil_div(desc.in_channels, kConvLineBytes / static_cast<int>(itemsize(desc.dtype))));
  t.window_h = (tile_h - 1) * t.stride_h + (t.taps_h - 1) * t.dilation_h + 1;
  t.window_w = (tile_w - 1) * t.stride_w + (t.taps_w - 1) * t.dilation_w + 1;
  t.phase_pitch = narrow(ceil_div(t.window_w, t.stride_w));
  t.pitch =
      narrow(ceil_div(std::int64_t{t.phase_pitch} * t.stride_w, 8) * 8);  // the swizzle's period
  return t;
}

std::size_t shared_bytes(const ConvTiles& tiles, const MmaShape& shape) {
  const std::int64_t lines =
      std::int64_t{kMmaStages} * shape.m + std::int64_t{2} * tiles.window_h * tiles.pitch;
  const std::int64_t sums = std::int64_t{shape.m} * (shape.n + 8) * std::int64_t{sizeof(float)};
  return static_cast<std::size_t>(std::max(lines * kConvLineBytes, sums));
}

std::int64_t packed_bytes(const ConvDesc& desc, const ConvTiles& t) {
  return desc.groups * t.k_blocks * t.taps_h * t.taps_w * t.rows * kConvLineBytes;
}

bool fits(const ConvDesc& desc, const ConvTiles& t, std::size_t shared,
          const DeviceTraits& traits) {
  constexpr auto kMaxInt = std::numeric_limits<std::int32_t>::max();
  const std::int64_t window = std::int64_t{t.window_h} * t.pitch * kConvLineBytes;
  return window < kMaxInt / 4 && shared <= traits.shared_per_block_optin_bytes &&
         desc.groups * t.tiles_m <= kMaxGridY && packed_bytes(desc, t) / 16 < kMaxInt &&
         std::int64_t{t.tiles_h} * t.tiles_w * desc.batch <= kMaxInt;
}

// Time of the mainloop in units of multiply-adds. A block alone on a multiprocessor does not hide
// its latencies.
double cost(const ConvDesc& desc, const ConvTiles& t, std::size_t shared, MmaTile tile,
            const DeviceTraits& traits) {
  const MmaShape shape = shape_of(tile);
  const auto blocks =
      static_cast<double>(desc.groups * t.tiles_m * desc.batch * t.tiles_h * t.tiles_w);
  const double per_sm = std::max(1.0, std::ceil(blocks / std::max(traits.multiprocessor_count, 1)));
  const std::size_t fitting = traits.shared_per_sm_bytes / std::max<std::size_t>(shared, 1);
  const double room = std::max(1.0, static_cast<double>(fitting));
  const double resident = std::min({per_sm, room, static_cast<double>(shape.blocks)});
  const double share = tile == MmaTile::k128x128 ? 1.0 : 0.7;
  const double alone = tile == MmaTile::k128x128 ? 0.75 : 0.35;
  const double busy = alone + (1.0 - alone) * (resident - 1.0) / (shape.blocks - 1.0);
  return per_sm * shape.m * shape.n / (share * busy);
}

// Tensor cores multiply whole tiles of 16 channels (float32: 8) and 64 rows; the direct kernel
// loads an element for every multiply-add.
bool prefers_direct(const ConvDesc& desc) {
  const bool precise = desc.dtype == DType::kFloat32 && !desc.tf32;
  const std::int64_t step = 32 / static_cast<std::int64_t>(itemsize(desc.dtype));
  const std::int64_t rows = desc.out_channels * (desc.transposed ? desc.stride_w : 1);
  const auto multiplied =
      static_cast<double>(ceil_div(desc.in_channels, step) * step) *
      std::max(64.0 / static_cast<double>(std::max(rows, std::int64_t{1})), 1.0);
  const double rate = precise ? 6.0 : 35.0;
  return desc.in_channels == 0 || static_cast<double>(desc.in_channels) * rate < multiplied;
}

}  // namespace

bool is_pointwise(const ConvDesc& desc) {
  return !desc.transposed && desc.taps() == 1 && desc.groups == 1 && desc.stride_h == 1 &&
         desc.stride_w == 1 && desc.pad_h == 0 && desc.pad_w == 0;
}

MmaShape shape_of(MmaTile tile) {
  return tile == MmaTile::k128x128 ? MmaShape{128, 128, 32, 64, 256, 2}
                                   : MmaShape{64, 64, 32, 32, 128, 4};
}

kernels::ConvDirectGrid direct_grid(std::int64_t rows, std::int64_t length) {
  using kernels::kConvDirectOutputs;
  using kernels::kConvDirectThreads;
  const std::int64_t wanted = ceil_div(std::max(length, std::int64_t{1}), kConvDirectOutputs);
  const auto lanes = std::min<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(wanted)),
                                             kConvDirectThreads);
  kernels::ConvDirectGrid grid{};
  grid.lane_bits = std::countr_zero(lanes);
  grid.chunks = narrow(ceil_div(wanted, static_cast<std::int64_t>(lanes)));
  grid.num_lines = rows * grid.chunks;
  return grid;
}

ConvPlan plan_conv(const ConvDesc& desc, const DeviceTraits& traits, bool general) {
  ConvPlan plan;
  plan.direct = direct_grid(desc.batch * desc.groups * desc.out_channels * desc.out_h, desc.out_w);
  plan.image = desc.out_h > 1 || desc.kernel_h > 1;
  if (prefers_direct(desc) || (desc.transposed && desc.dilation_w > 1) || (general && plan.image))
    return plan;
  double least = std::numeric_limits<double>::infinity();
  for (const MmaTile tile : {MmaTile::k128x128, MmaTile::k64x64}) {
    if (general && tile != MmaTile::k64x64) continue;
    const ConvTiles tiles = tiles_of(desc, shape_of(tile), plan.image);
    const std::size_t shared = shared_bytes(tiles, shape_of(tile));
    if (!fits(desc, tiles, shared, traits)) continue;
    const double time = cost(desc, tiles, shared, tile, traits);
    if (time >= least) continue;
    least = time;
    plan.engine = ConvEngine::kMma;
    plan.tile = tile;
    plan.tiles = tiles;
    plan.shared_bytes = shared;
  }
  return plan;
}

std::string to_string(const ConvPlan& plan) {
  if (plan.engine == ConvEngine::kDirect)
    return cat("direct(lanes=", 1 << plan.direct.lane_bits, ", chunks=", plan.direct.chunks, ")");
  const MmaShape shape = shape_of(plan.tile);
  return cat("mma(", shape.m, "x", shape.n, ", window=", plan.tiles.window_h, "x",
             plan.tiles.window_w, ", ", plan.shared_bytes, " bytes)");
}

}  // namespace gpk::ops::conv
