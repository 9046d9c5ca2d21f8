// Which kernels take which matrices, and in which order blocks of columns meet. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "kernels/args/linalg.h"

namespace gpk::ops::linalg {

// Order of the largest matrix that a block of eigh_leaf holds; even.
int eigh_leaf_order(DType dtype);

// Dynamic shared memory of a rows x cols matrix, rows of odd pitch.
std::size_t matrix_bytes(std::int64_t rows, std::int64_t cols, DType dtype);

// A panel of LU or QR.
struct PanelPlan {
  bool shared = true;  // in shared memory, else in place
  unsigned threads = 256;
  std::size_t shared_bytes = 0;
  friend bool operator==(const PanelPlan&, const PanelPlan&) = default;
};
PanelPlan plan_panel(std::int64_t rows, std::int64_t cols, DType dtype, const DeviceTraits& traits);
std::string to_string(const PanelPlan& plan);  // "panel(shared, threads=256)"

// Block Jacobi: pairs of blocks of columns, each of them diagonalised by one block of eigh_leaf.
struct JacobiPlan {
  std::int64_t pairs = 1;
  std::int64_t pair_order = 0;  // columns of a pair, even unless there is one
  [[nodiscard]] std::int64_t order() const noexcept { return pairs * pair_order; }  // with padding
  friend bool operator==(const JacobiPlan&, const JacobiPlan&) = default;
};
JacobiPlan plan_jacobi(std::int64_t n, DType dtype);
std::string to_string(const JacobiPlan& plan);  // "jacobi(pairs=32, order=64)"

// The order of 2 * pairs blocks in each of the 2 * pairs - 1 rounds of a tournament: places 2 i and
// 2 i + 1 are a pair, every two blocks once. The lower block comes first, so that pairs whose
// columns are sorted sort the whole: columns then stay in their blocks, and every two meet in a
// sweep.
std::vector<std::vector<std::int64_t>> tournament_rounds(std::int64_t pairs);

}  // namespace gpk::ops::linalg
