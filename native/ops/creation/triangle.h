// Triangles of matrices (the last two axes; all others are batch axes).
#pragma once

#include <string>

#include "core/array.h"
#include "ops/op.h"

namespace gpk::ops {

// Element (i, j) is kept where j <= i + k (tril) or j >= i + k (triu). Needs two axes.
Array tril(const Array& x, std::int64_t k);
Array triu(const Array& x, std::int64_t k);

namespace creation {

struct TrianglePlan {
  int vec = 1;  // elements per access; accesses do not cross rows
  std::int64_t bound = 0;
  std::int64_t accesses_per_row = 0;
  std::int64_t num_accesses = 0;
  friend bool operator==(const TrianglePlan&, const TrianglePlan&) = default;
};
// `alignment` is the largest power of two that divides both addresses.
TrianglePlan plan_triangle(std::size_t width, const Dims& shape, std::int64_t k, bool lower,
                           std::size_t alignment);
std::string to_string(const TrianglePlan& plan);

void enumerate_triangle(std::vector<jit::KernelSpec>& specs);

}  // namespace creation

}  // namespace gpk::ops
