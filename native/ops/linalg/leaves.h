// The kernels of the family, on stacks [batch, rows, cols] of any strides. On the CPU the function
// linalg_leaf_<name> of pygpukit._reference.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/array.h"
#include "jit/builtin.h"
#include "kernels/args/linalg.h"
#include "ops/linalg/plan.h"

namespace gpk::ops::linalg {

enum class LinalgKernel : std::uint8_t {
  kCholesky,
  kTriangular,
  kLu,
  kSwapRows,
  kQr,
  kWy,
  kEigh,
  kLuPanel,
  kQrPanel,
  kProduct,
  kLuCluster,
  // Of tridiagonal.h, bidiagonal.h and divide.h.
  kTridiagonal = 64,
  kBidiagonal,
  kTear,
  kDeflate,
  kRoots,
  kWeights,
  kVectors,
};

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kComplex64,
                                    DType::kComplex128};

// A stack as kernels take it.
kernels::LinalgMatrix matrix_of(const Array& a);

// Status: int32 [batch], 0 or 1 + the first column that failed, counted from `first`.

// The lower triangle of `a`, of order kLinalgLeaf at most, in place.
void cholesky_leaf(const Array& a, const Array& status, std::int64_t first, const char* op);

// T X = B in place of b; t is lower triangular, of order triangular_order() at most.
void triangular_leaf(const Array& t, const Array& b, bool unit, bool conjugate, const char* op);

// Up to kLinalgLeaf columns, in place. pivots: int32 [batch, min(rows, cols)], first + row.
void lu_leaf(const Array& a, const Array& pivots, const Array& status, std::int64_t first,
             const char* op);

// A tall panel by several blocks, on a GPU; rest as lu_leaf. exchange: where has_exchange(grid),
// zeros at first, one for all panels of a factorisation (new_exchange).
void lu_panel(const Array& a, const Array& pivots, const Array& status,
              const std::optional<Array>& exchange, std::int64_t first, const PanelGrid& grid,
              const char* op);
Array new_exchange(const PanelGrid& grid, const Array& a, const char* op);
// The panels that a factorisation begins with; blocks is 0 on the CPU.
PanelGrid panel_grid(PanelKind kind, const Array& a);

// Row i of `a` is swapped with row pivots[i] - first, in order or backward.
void swap_rows(const Array& a, const Array& pivots, std::int64_t first, bool backward,
               const char* op);

// Up to kLinalgPanel columns, in place. tau: [batch, min(rows, cols)].
void qr_leaf(const Array& a, const Array& tau, const char* op);

// A tall panel by several blocks, on a GPU: R in place, v (the unit lower trapezoid) and t as of
// wy_leaf. exchange: as of lu_panel; first: column of the whole matrix.
struct WyFactors {
  Array v, t;
};
void qr_panel(const Array& a, const WyFactors& wy, const Array& exchange, std::int64_t first,
              const PanelGrid& grid, const char* op);

// t, upper triangular, with I - V t V^H the product of the reflectors; gram is V^H V.
void wy_leaf(const Array& gram, const Array& tau, const Array& t, const char* op);

// c = a b, or c -= a b, of float64 and complex128 on a GPU; c overlaps neither.
void matrix_product(const Array& c, const Array& a, const Array& b, bool subtract, const char* op);

// w [batch, n], v [batch, n, n]; off: [batch], the largest element of `a` off the diagonal, in
// units of the diagonal's geometric mean where relative. Order eigh_leaf_order() at most.
struct EighLeaf {
  Array w, v, off;
};
EighLeaf eigh_leaf(const Array& a, const Array& status, bool relative, bool descending,
                   const char* op);

void enumerate_leaves(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::linalg
