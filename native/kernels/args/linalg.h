// What the kernels of kernels/linalg take. Strides are in elements and may be negative.
#pragma once

namespace gpk::kernels {

inline constexpr int kLinalgLeaf = 64;   // order of matrices that one block factors or solves
inline constexpr int kLinalgPanel = 32;  // columns of a panel of LU and QR
inline constexpr int kLinalgThreads = 256;
inline constexpr int kPanelThreads = 512;  // LU and QR
inline constexpr int kPanelBlocks = 64;    // of a panel at most, one or two for a lane
inline constexpr int kPanelMaxCols = 128;  // of LU
inline constexpr int kQrPanelBlocks = 32;
inline constexpr int kQrPanelCols = 64;       // of QR
inline constexpr int kQrPanelWideCols = 32;   // of elements of 16 bytes
inline constexpr int kPanelHeadWords = 3;     // of each block
inline constexpr long long kPanelSlotWords =  // of a matrix: two slots
    2LL * kPanelBlocks * (kPanelHeadWords + kPanelMaxCols * 4);
inline constexpr int kSwapRows = 128;            // swaps at a time
inline constexpr int kSwapLineBytes = 128;       // of a row
inline constexpr int kTriangularOrder = 128;     // of triangles that one block solves
inline constexpr int kTriangularWideOrder = 64;  // of elements of 16 bytes
inline constexpr int kTriangularCols = 32;       // right-hand sides of a block

// Tiles of float64 products; "wide": of complex128.
inline constexpr int kProductThreads = 128;
inline constexpr int kProductStages = 3;
inline constexpr int kProductM = 64;
inline constexpr int kProductWideM = 32;
inline constexpr int kProductN = 64;
inline constexpr int kProductK = 16;
inline constexpr int kProductWideK = 8;

// Reductions to tridiagonal and bidiagonal form; divide and conquer.
inline constexpr int kReflectorThreads = 512;
inline constexpr int kDivideThreads = 256;

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

// All blocks of a launch are resident.
struct LuPanelArgs {
  LinalgMatrix a;  // in place; no fewer rows than columns
  int* pivots;
  long long pivots_batch;
  int* status;
  unsigned long long* exchange;  // kPanelSlotWords for each matrix, without tags of these columns;
                                 // unused with one block and in a cluster
  long long first_matrix;        // of the launch
  int rows, cols;
  int rows_per_block;
  int first;  // as in LuArgs
};
static_assert(sizeof(LuPanelArgs) == 88 && __is_trivially_copyable(LuPanelArgs));

struct SwapRowsArgs {
  LinalgMatrix a;
  const int* pivots;
  long long pivots_batch;
  long long cols;
  int count;
  int first;     // row of the whole matrix that is row 0 of a
  int backward;  // the last swap first
  int rows;      // pivots that are none of them swap nothing
};
static_assert(sizeof(SwapRowsArgs) == 72 && __is_trivially_copyable(SwapRowsArgs));

struct QrArgs {
  LinalgMatrix a;  // in place: R, and Householder vectors below the diagonal
  void* tau;
  long long tau_batch;
  int rows, cols;
};
static_assert(sizeof(QrArgs) == 56 && __is_trivially_copyable(QrArgs));

// All blocks of a launch are resident.
struct QrPanelArgs {
  LinalgMatrix a;                // R on and above the diagonal; anything below it
  LinalgMatrix v;                // unit lower trapezoid
  LinalgMatrix t;                // as in WyArgs
  unsigned long long* exchange;  // as in LuPanelArgs
  long long first_matrix;
  int rows, cols;
  int rows_per_block;
  int first;  // column of the whole matrix
};
static_assert(sizeof(QrPanelArgs) == 128 && __is_trivially_copyable(QrPanelArgs));

struct WyArgs {
  LinalgMatrix gram;  // V^H V
  LinalgMatrix t;     // upper triangular; zeros below are written
  const void* tau;
  long long tau_batch;
  int n;
  int unused;
};
static_assert(sizeof(WyArgs) == 88 && __is_trivially_copyable(WyArgs));

struct ProductArgs {
  LinalgMatrix a, b;  // m x k, k x n
  LinalgMatrix c;     // overlaps neither
  long long m, n, k;
  int subtract;  // from c, in place
  int unused;
};
static_assert(sizeof(ProductArgs) == 128 && __is_trivially_copyable(ProductArgs));

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

// What the blocks of a panel of reflectors pass to each other; parts and reflector are one for all
// matrices.
struct ReflectorExchange {
  void* column;        // pitch numbers: the column that is reduced
  void* product;       // pitch numbers: A v
  unsigned* arrivals;  // how often a block has reached a barrier of the grid
  void* parts;         // 2 kLinalgPanel numbers for each block
  void* reflector;     // pitch numbers for each block, or nullptr: in shared memory
  int pitch;
  int arrived;  // barriers before this launch
};
static_assert(sizeof(ReflectorExchange) == 48 && __is_trivially_copyable(ReflectorExchange));

// A panel of a Hermitian matrix, columns [first, first + cols), to tridiagonal form.
struct TridiagonalArgs {
  LinalgMatrix a;   // both triangles; rows of an aligned pitch, zeros after column n; not changed
  LinalgMatrix vw;  // out: [V | W], kLinalgPanel columns each, rows `first` and below
  LinalgMatrix wv;  // out: [W | V]
  ReflectorExchange exchange;
  void* bands;  // out, real: of each matrix the diagonal, then the elements below it (n each)
  void* tau;    // out, tau_batch apart
  long long tau_batch;
  int n;
  int first, cols;
  int unused;
};
static_assert(sizeof(TridiagonalArgs) == 184 && __is_trivially_copyable(TridiagonalArgs));

// One of the two spaces of a bidiagonalisation A = Q_u B Q_v^H.
struct BidiagonalSpace {
  LinalgMatrix a;           // A of the space u, A^H of v; as of TridiagonalArgs
  LinalgMatrix panel;       // out: 2 kLinalgPanel columns, this space's parts of V and W
  LinalgMatrix reflectors;  // out: kLinalgPanel columns of V
  void* tau;                // out, tau_batch apart
};
static_assert(sizeof(BidiagonalSpace) == 104 && __is_trivially_copyable(BidiagonalSpace));

// Reflectors [first, first + cols), in u and v by turns.
struct BidiagonalArgs {
  BidiagonalSpace u, v;
  ReflectorExchange exchange;
  void* bands;  // out, real, 4 n for each matrix: after 2 n others, the elements of B by columns
  long long tau_batch;
  int n;
  int first, cols;
  int unused;
};
static_assert(sizeof(BidiagonalArgs) == 288 && __is_trivially_copyable(BidiagonalArgs));

// What a merge of divide and conquer knows. In the order of the halves' eigenvalues:
//   kValue
// In ascending order of these (slots):
//   kSlotValue, kSlotZ, kSlotNorm (of z over the chain of equal values up to there), kFound (the
//   eigenvalue that takes the slot)
// Of the roots of the secular equation, ascending:
//   kPole, kWeight (z there), kSquare (rho z^2), kOffset (root minus pole kOrigin), kExact (the z
//   whose roots these are exactly)
enum class DivideField : int {
  kValue,
  kSlotValue,
  kSlotZ,
  kSlotNorm,
  kFound,
  kPole,
  kWeight,
  kSquare,
  kOffset,
  kExact,
  kCount,
};
// kSlot of a value; of a slot kRoot (-1: deflated by a small z), kStart (first slot of its chain),
// kNext (the slot that it was rotated into, or -1); of a root kOrigin and kPlace (its slot);
// kNumRoots: one number.
enum class DivideLink : int {
  kSlot,
  kRoot,
  kStart,
  kNext,
  kOrigin,
  kPlace,
  kNumRoots,
  kCount,
};

struct DivideArgs {
  double* work;       // [batch][DivideField][n]
  int* links;         // [batch][DivideLink][n]
  const double* off;  // [batch][n]: elements below the diagonal of the tridiagonal matrix
  LinalgMatrix q;     // stack of halves: eigenvectors are columns
  LinalgMatrix u;     // stack of halves: those parts of the merge's eigenvectors, which are rows
  int n;              // a multiple of 2 half
  int half;
};
static_assert(sizeof(DivideArgs) == 96 && __is_trivially_copyable(DivideArgs));

struct TearArgs {
  const double* bands;  // [batch][2][n]
  LinalgMatrix leaves;  // stack
  long long count;      // elements of all leaves
  int n;
  int leaf;
};
static_assert(sizeof(TearArgs) == 56 && __is_trivially_copyable(TearArgs));

}  // namespace gpk::kernels
