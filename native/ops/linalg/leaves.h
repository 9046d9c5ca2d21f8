// The kernels of the family, on stacks [batch, rows, cols] of any strides. On the CPU the function
// linalg_leaf_<name> of pygpukit._reference.
#pragma once

#include <cstdint>
#include <vector>

#include "core/array.h"
#include "jit/builtin.h"

namespace gpk::ops::linalg {

enum class LinalgKernel : std::uint8_t { kCholesky, kTriangular, kLu, kSwapRows, kQr, kWy, kEigh };

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kComplex64,
                                    DType::kComplex128};

// Status: int32 [batch], 0 or 1 + the first column that failed, counted from `first`.

// The lower triangle of `a`, of order kLinalgLeaf at most, in place.
void cholesky_leaf(const Array& a, const Array& status, std::int64_t first, const char* op);

// T X = B in place of b; t is lower triangular, of order kLinalgLeaf at most.
void triangular_leaf(const Array& t, const Array& b, bool unit, bool conjugate, const char* op);

// Up to kLinalgLeaf columns, in place. pivots: int32 [batch, min(rows, cols)], first + row.
void lu_leaf(const Array& a, const Array& pivots, const Array& status, std::int64_t first,
             const char* op);

// Row i of `a` is swapped with row pivots[i] - first, in order or backward.
void swap_rows(const Array& a, const Array& pivots, std::int64_t first, bool backward,
               const char* op);

// Up to kLinalgPanel columns, in place. tau: [batch, min(rows, cols)].
void qr_leaf(const Array& a, const Array& tau, const char* op);

// t, upper triangular, with I - V t V^H the product of the reflectors; gram is V^H V.
void wy_leaf(const Array& gram, const Array& tau, const Array& t, const char* op);

// w [batch, n], v [batch, n, n]; off: [batch], the largest element of `a` off the diagonal, in
// units of the diagonal's geometric mean where relative. Order eigh_leaf_order() at most.
struct EighLeaf {
  Array w, v, off;
};
EighLeaf eigh_leaf(const Array& a, const Array& status, bool relative, bool descending,
                   const char* op);

void enumerate_leaves(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::linalg
