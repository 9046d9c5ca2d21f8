// Eigenvalues and eigenvectors of real symmetric tridiagonal matrices, by divide and conquer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/array.h"
#include "jit/builtin.h"

namespace gpk::ops::linalg {

// How a matrix is torn: into equal leaves, a power of two of them, with padding at the end. Pure.
struct DividePlan {
  std::int64_t leaf = 0;
  std::int64_t leaves = 1;
  [[nodiscard]] std::int64_t order() const noexcept { return leaf * leaves; }
  friend bool operator==(const DividePlan&, const DividePlan&) = default;
};
DividePlan plan_divide(std::int64_t n);
std::string to_string(const DividePlan& plan);  // "divide(leaf=17, leaves=8)"

struct TridiagonalSpectrum {
  Array w;  // [batch, n], ascending
  Array v;  // [batch, n, n], columns; a view
};
// bands: [batch, 2, n] as in Tridiagonal. Nothing waits. Status as in power_of_two_scale().
TridiagonalSpectrum divide_and_conquer(const Array& bands, const Array& status, const char* op);

void enumerate_divide(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::linalg
