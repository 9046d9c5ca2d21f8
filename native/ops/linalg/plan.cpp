#include "ops/linalg/plan.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"

namespace gpk::ops::linalg {

int eigh_leaf_order(DType dtype) {
  constexpr int kWideOrder = 48;  // two complex128 matrices of order 64 exceed 99 KiB
  return itemsize(dtype) == 16 ? kWideOrder : kernels::kLinalgLeaf;
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

JacobiPlan plan_jacobi(std::int64_t n, DType dtype) {
  const std::int64_t leaf = eigh_leaf_order(dtype);
  if (n <= leaf) return {1, n};
  const std::int64_t pairs = ceil_div(n, leaf);
  return {pairs, 2 * ceil_div(n, 2 * pairs)};
}

std::string to_string(const JacobiPlan& plan) {
  return cat("jacobi(pairs=", plan.pairs, ", order=", plan.pair_order, ")");
}

std::vector<std::vector<std::int64_t>> tournament_rounds(std::int64_t pairs) {
  const std::int64_t last = 2 * pairs - 1;  // the circle method: this one stays
  std::vector<std::vector<std::int64_t>> rounds;
  for (std::int64_t round = 0; round < last; ++round) {
    std::vector<std::int64_t> places;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t x = pair == 0 ? last : (round + pair) % last;
      const std::int64_t y = (round + last - pair) % last;
      places.push_back(std::min(x, y));
      places.push_back(std::max(x, y));
    }
    rounds.push_back(std::move(places));
  }
  return rounds;
}

}  // namespace gpk::ops::linalg
