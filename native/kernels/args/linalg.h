// What the kernels of kernels/linalg take. Strides are in elements and may be negative.
#pragma once

namespace gpk::kernels {

inline constexpr int kLinalgLeaf = 64;   // order of matrices that one block factors or solves
inline constexpr int kLinalgPanel = 32;  // columns of a panel of LU and QR
inline constexpr int kLinalgThreads = 256;
inline constexpr int kPanelThreads = 512;   // LU and QR
inline constexpr int kTriangularCols = 32;  // right-hand sides of a block

// One of a stack.
struct LinalgMatrix {
  void* data;
  long long batch, row, col;
};
static_assert(sizeof(LinalgMatrix) == 32 && __is_trivially_copyable(LinalgMatrix));

// Status of a matrix: 0, or 1 + the first column that failed.
struct CholeskyArgs {
  LinalgMatrix a;  // lower triangle, in place
  int* status;
  int n;
  int first;  // column of the whole matrix
};
static_assert(sizeof(CholeskyArgs) == 48 && __is_trivially_copyable(CholeskyArgs));

struct TriangularArgs {
  LinalgMatrix t;  // lower
  LinalgMatrix b;  // in place
  long long cols;
  int n;
  int unit;       // ones on the diagonal, which is not read
  int conjugate;  // of t
  int unused;
};
static_assert(sizeof(TriangularArgs) == 88 && __is_trivially_copyable(TriangularArgs));

struct LuArgs {
  LinalgMatrix a;  // in place
  int* pivots;
  long long pivots_batch;
  int* status;
  int rows, cols;
  int first;  // row and column of the whole matrix; pivots count from its row 0
  int unused;
};
static_assert(sizeof(LuArgs) == 72 && __is_trivially_copyable(LuArgs));

struct SwapRowsArgs {
  LinalgMatrix a;
  const int* pivots;
  long long pivots_batch;
  long long cols;
  int count;
  int first;     // row of the whole matrix that is row 0 of a
  int backward;  // the last swap first
  int unused;
};
static_assert(sizeof(SwapRowsArgs) == 72 && __is_trivially_copyable(SwapRowsArgs));

struct QrArgs {
  LinalgMatrix a;  // in place: R, and Householder vectors below the diagonal
  void* tau;
  long long tau_batch;
  int rows, cols;
};
static_assert(sizeof(QrArgs) == 56 && __is_trivially_copyable(QrArgs));

struct WyArgs {
  LinalgMatrix gram;  // V^H V
  LinalgMatrix t;     // upper triangular; zeros below are written
  const void* tau;
  long long tau_batch;
  int n;
  int unused;
};
static_assert(sizeof(WyArgs) == 88 && __is_trivially_copyable(WyArgs));

struct EighArgs {
  LinalgMatrix a;  // both triangles, not changed
  LinalgMatrix v;
  void* w;
  void* off;  // of each matrix: the largest element off the diagonal
  int* status;
  long long w_batch;
  int n;
  int relative;    // thresholds and `off` relative to the geometric mean of both diagonal elements
  int descending;  // order of w
  int unused;
};
static_assert(sizeof(EighArgs) == 112 && __is_trivially_copyable(EighArgs));

}  // namespace gpk::kernels
