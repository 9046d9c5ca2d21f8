// From the sizes of a convolution to a kernel and its tiles.
#pragma once

#include <string>

#include "core/device.h"
#include "kernels/args/conv.h"
#include "ops/conv/desc.h"

namespace gpk::ops::conv {

// One tap, nothing skipped: a matmul.
bool is_pointwise(const ConvDesc& desc);

enum class ConvEngine : std::uint8_t { kMma, kDirect };

// Tile shapes of conv_mma: rows by positions.
enum class MmaTile : std::uint8_t { k128x128, k64x64 };
inline constexpr int kMmaStages = 3;
struct MmaShape {
  int m, n;
  int warp_m, warp_n;
  int threads;
  int blocks;  // resident at once, at most
};
MmaShape shape_of(MmaTile tile);

struct ConvPlan {
  ConvEngine engine = ConvEngine::kDirect;
  MmaTile tile = MmaTile::k64x64;
  bool image = false;  // tiles are 16 positions wide
  std::size_t shared_bytes = 0;
  kernels::ConvTiles tiles{};        // kMma
  kernels::ConvDirectGrid direct{};  // kDirect
};

// `general`: only kernels of the PTX bundle.
ConvPlan plan_conv(const ConvDesc& desc, const DeviceTraits& traits, bool general = false);
std::string to_string(const ConvPlan& plan);  // "mma(128x128, window=1x130, 66048 bytes)"

// Threads for rows of `length` outputs.
kernels::ConvDirectGrid direct_grid(std::int64_t rows, std::int64_t length);

}  // namespace gpk::ops::conv
