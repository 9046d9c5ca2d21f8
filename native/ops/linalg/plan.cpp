#include "ops/linalg/plan.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"

namespace gpk::ops::linalg {
namespace {

// Shared memory of a block of a panel, beside its rows.
std::size_t panel_bytes(PanelKind kind, std::int64_t cols, DType dtype) {
  constexpr std::size_t kSmall = 512;  // candidates, places and exponents with their alignment
  const std::int64_t warps = kernels::kPanelThreads / 32;
  const std::int64_t lines = kind == PanelKind::kLu ? 1 : 2 * warps + 4;
  const std::size_t lines_bytes =
      static_cast<std::size_t>(lines * (kind == PanelKind::kLu ? kernels::kPanelMaxCols : cols)) *
      itemsize(dtype);
  return kSmall + lines_bytes + (kind == PanelKind::kQr ? matrix_bytes(cols, cols, dtype) : 0);
}

int qr_panel_cols(DType dtype) {
  return itemsize(dtype) == 16 ? kernels::kQrPanelWideCols : kernels::kQrPanelCols;
}

}  // namespace

int eigh_leaf_order(DType dtype) {
  constexpr int kWideOrder = 48;  // two complex128 matrices of order 64 exceed 99 KiB
  return itemsize(dtype) == 16 ? kWideOrder : kernels::kLinalgLeaf;
}

int triangular_order(DType dtype) {
  return itemsize(dtype) == 16 ? kernels::kTriangularWideOrder : kernels::kTriangularOrder;
}

std::size_t triangular_bytes(std::int64_t n, DType dtype) {
  return 2 * matrix_bytes(kernels::kTriangularCols, ceil_div(n, 32) * 32, dtype);
}

std::size_t matrix_bytes(std::int64_t rows, std::int64_t cols, DType dtype) {
  return static_cast<std::size_t>(rows * (cols | 1)) * itemsize(dtype);
}

PanelPlan plan_panel(std::int64_t rows, std::int64_t cols, DType dtype,
                     const DeviceTraits& traits) {
  constexpr std::size_t kStatic = std::size_t{16} << 10;  // the kernels' own, at most
  const std::size_t bytes = matrix_bytes(rows, cols, dtype);
  PanelPlan plan;
  plan.shared = bytes + kStatic <= traits.shared_per_block_optin_bytes;
  plan.shared_bytes = plan.shared ? bytes : 0;
  const std::int64_t elements = rows * cols;
  plan.threads = elements <= 32 * 32 ? 128u : elements <= 64 * 64 ? 256u : kernels::kPanelThreads;
  return plan;
}

std::string to_string(const PanelPlan& plan) {
  return cat("panel(", plan.shared ? "shared" : "in place", ", threads=", plan.threads, ")");
}

namespace {

// By shared memory of each other, which is faster than the L2 as long as a block's share of the
// rows, by which it is slower, is small.
PanelGrid plan_cluster(const PanelDesc& desc, const DeviceTraits& traits, int num_sms) {
  constexpr std::int64_t kBlocks = 8;        // portable
  constexpr std::int64_t kBytes = 16 << 10;  // of a column
  const bool has_kernel = traits.sm == 90 || traits.sm == 100 || traits.sm == 120;
  const std::int64_t bytes = desc.rows * static_cast<std::int64_t>(itemsize(desc.dtype));
  // A part of the multiprocessors may not have room for a cluster.
  if (desc.kind != PanelKind::kLu || !has_kernel || !traits.cluster_launch || bytes > kBytes ||
      num_sms != traits.multiprocessor_count)
    return {};
  const int widest = triangular_order(desc.dtype);
  PanelGrid grid;
  grid.blocks = kBlocks;
  grid.cols = static_cast<int>(
      std::min<std::int64_t>(4 * bytes > kBytes ? std::min(widest, 64) : widest, desc.cols));
  grid.rows = static_cast<int>(ceil_div(desc.rows, kBlocks));
  grid.matrices = static_cast<int>(desc.batch);
  grid.cluster = true;
  grid.shared_bytes = panel_bytes(desc.kind, grid.cols, desc.dtype) +
                      matrix_bytes(grid.rows, grid.cols, desc.dtype) +
                      static_cast<std::size_t>(grid.rows) * 4;
  return grid.shared_bytes <= traits.shared_per_block_optin_bytes ? grid : PanelGrid{};
}

}  // namespace

PanelGrid plan_panel_grid(const PanelDesc& desc, const DeviceTraits& traits, int num_sms) {
  constexpr std::int64_t kRows = 64;        // of a block among others,
  constexpr std::int64_t kRowsAlone = 256;  // which wait for each other in every column
  const std::int64_t sms = num_sms;
  if (!traits.cooperative_launch || desc.batch >= sms) return {};
  if (desc.rows > kRowsAlone)
    if (const PanelGrid cluster = plan_cluster(desc, traits, num_sms); cluster.blocks > 0)
      return cluster;
  const int widest =
      desc.kind == PanelKind::kLu ? triangular_order(desc.dtype) : qr_panel_cols(desc.dtype);
  for (int cols = widest; cols >= 8; cols /= 2) {
    const std::int64_t width = std::min<std::int64_t>(cols, desc.cols);
    const std::size_t fixed = panel_bytes(desc.kind, width, desc.dtype);
    if (fixed >= traits.shared_per_block_optin_bytes) continue;
    const std::size_t row =
        matrix_bytes(1, width, desc.dtype) + (desc.kind == PanelKind::kLu ? 4 : 0);
    const auto room =
        static_cast<std::int64_t>((traits.shared_per_block_optin_bytes - fixed) / row);
    const std::int64_t least = ceil_div(desc.rows, std::max<std::int64_t>(room, 1));
    const std::int64_t most = std::min<std::int64_t>(
        desc.kind == PanelKind::kLu ? kernels::kPanelBlocks : kernels::kQrPanelBlocks, sms);
    if (least > most) continue;
    const std::int64_t wanted = desc.rows <= kRowsAlone ? least : ceil_div(desc.rows, kRows);
    const std::int64_t blocks = std::max(least, std::min({wanted, most, sms / desc.batch}));
    PanelGrid grid;
    grid.rows = static_cast<int>(ceil_div(desc.rows, blocks));
    grid.blocks = static_cast<int>(ceil_div(desc.rows, grid.rows));
    grid.cols = static_cast<int>(width);
    grid.matrices = static_cast<int>(std::min(desc.batch, sms / blocks));
    grid.shared_bytes = fixed + static_cast<std::size_t>(grid.rows) * row;
    return grid;
  }
  return {};
}

std::string to_string(const PanelGrid& grid) {
  return cat("grid(blocks=", grid.blocks, ", cols=", grid.cols, ", rows=", grid.rows,
             ", matrices=", grid.matrices, grid.cluster ? ", cluster)" : ")");
}

std::int64_t ProductPlan::tiles(std::int64_t batch, std::int64_t m, std::int64_t n) const {
  return batch * ceil_div(m, tile_m) * ceil_div(n, tile_n);
}

ProductPlan plan_product(DType dtype) {
  const bool wide = itemsize(dtype) == 16;
  const int depth = wide ? kernels::kProductWideK : kernels::kProductK;
  ProductPlan plan{wide ? kernels::kProductWideM : kernels::kProductM, kernels::kProductN, 0};
  const int elems = (plan.tile_m + plan.tile_n) * (depth + 4);  // of a stage, [row][k]
  plan.shared_bytes = static_cast<std::size_t>(kernels::kProductStages * elems) * itemsize(dtype);
  return plan;
}

bool is_double(DType dtype) { return dtype == DType::kFloat64 || dtype == DType::kComplex128; }

bool takes_product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype,
                   int num_sms) {
  constexpr std::int64_t kThin = 16;
  constexpr std::int64_t kShort = 512;
  if (!is_double(dtype) || std::min(m, n) < kThin || k < kThin) return false;
  return k <= kShort || 2 * plan_product(dtype).tiles(batch, m, n) >= num_sms;
}

}  // namespace gpk::ops::linalg
