// Which kernels take which matrices. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"
#include "core/dtype.h"
#include "kernels/args/linalg.h"

namespace gpk::ops::linalg {

// Order of the largest matrix that a block of eigh_leaf holds; even.
int eigh_leaf_order(DType dtype);

// Dynamic shared memory of a rows x cols matrix, rows of odd pitch.
std::size_t matrix_bytes(std::int64_t rows, std::int64_t cols, DType dtype);

// Order of the largest triangle that a block of triangular_leaf solves, and its shared memory.
int triangular_order(DType dtype);
std::size_t triangular_bytes(std::int64_t n, DType dtype);

// A panel of LU or QR.
struct PanelPlan {
  bool shared = true;  // in shared memory, else in place
  unsigned threads = 256;
  std::size_t shared_bytes = 0;
  friend bool operator==(const PanelPlan&, const PanelPlan&) = default;
};
PanelPlan plan_panel(std::int64_t rows, std::int64_t cols, DType dtype, const DeviceTraits& traits);
std::string to_string(const PanelPlan& plan);  // "panel(shared, threads=256)"

// Panels by several blocks, all of them resident.
struct PanelGrid {
  int blocks = 0;    // of a matrix; 0: none, PanelPlan applies
  int cols = 0;      // of the widest panel
  int rows = 0;      // of a block
  int matrices = 0;  // of a launch
  std::size_t shared_bytes = 0;
  bool cluster = false;  // the blocks of a matrix are one, and only they are resident together
  friend bool operator==(const PanelGrid&, const PanelGrid&) = default;
};
enum class PanelKind : std::uint8_t { kLu, kQr };
struct PanelDesc {
  PanelKind kind = PanelKind::kLu;
  std::int64_t batch = 1, rows = 1, cols = 1;
  DType dtype = DType::kFloat32;
};
// num_sms: what the stream may use.
PanelGrid plan_panel_grid(const PanelDesc& desc, const DeviceTraits& traits, int num_sms);
// Whether its blocks exchange words in global memory.
inline bool has_exchange(const PanelGrid& grid) { return grid.blocks > 1 && !grid.cluster; }
std::string to_string(const PanelGrid& grid);  // "grid(blocks=8, cols=64, rows=128, matrices=1)"

// Products of float64 and complex128 by tiles of one block each.
struct ProductPlan {
  int tile_m = 0, tile_n = 0;
  std::size_t shared_bytes = 0;
  [[nodiscard]] std::int64_t tiles(std::int64_t batch, std::int64_t m, std::int64_t n) const;
};
ProductPlan plan_product(DType dtype);
bool is_double(DType dtype);  // float64 or complex128
// Whether ProductPlan applies: neither thin, nor few tiles with a K that is worth being split.
bool takes_product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype,
                   int num_sms);

}  // namespace gpk::ops::linalg
