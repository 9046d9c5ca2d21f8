// C = A B or C -= A B (in place) in float64 on tensor cores; complex128 by four real products. Any
// strides. A block of 2 x 2 warps has a tile of C (grid x: batches of tiles, column first); A and B
// pass through a ring of kStages tiles in dynamic shared memory, whose layout follows that of the
// operand: [row][k] or [k][row], of a pitch that keeps fragments free of bank conflicts. Every
// element is summed in order of k.
#pragma once

#include "common/cp_async.cuh"
#include "linalg/matrix.cuh"

namespace gpk {

// C (16 x 8) += A (16 x 8) B (8 x 8); g = lane / 4, t = lane % 4: a[h + 2 kh] is row g + 8 h, k = t
// + 4 kh; b[kh] is column g; c[2 h + e] is row g + 8 h, column 2 t + e.
__device__ __forceinline__ void multiply_doubles(double (&c)[4], const double (&a)[4],
                                                 const double (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int kh = 0; kh < 2; ++kh)
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                   : "+d"(c[2 * h]), "+d"(c[2 * h + 1])
                   : "d"(a[h + 2 * kh]), "d"(b[kh]));
#endif
}

// The parts of a number that are multiplied, and of a product that are added up.
template <class T>
struct ProductParts;
template <>
struct ProductParts<double> {
  static constexpr int kCount = 1;
  static __device__ __forceinline__ double get(double x, int) { return x; }
  static __device__ __forceinline__ double join(double re, double) { return re; }
};
template <>
struct ProductParts<complex128> {
  static constexpr int kCount = 2;
  static __device__ __forceinline__ double get(complex128 x, int part) {
    return part == 0 ? x.re : x.im;
  }
  static __device__ __forceinline__ complex128 join(double re, double im) { return {re, im}; }
};

// One operand, of which "row" is m of A, n of B: its tiles on the way to shared memory.
template <class T, int kRows, int kDepth>
struct ProductOperand {
  static constexpr int kPitchK = kDepth + 4;  // of [row][k], and of [k][row]
  static constexpr int kPitchRow = kRows + 4;
  static constexpr int kElems =
      kRows * kPitchK > kDepth* kPitchRow ? kRows* kPitchK : kDepth* kPitchRow;
  static constexpr int kCopies = kRows * kDepth / kProductThreads;

  const T* from;
  long long row, k;  // strides
  int rows;          // that exist
  bool along_k;      // neighbours in memory

  __device__ __forceinline__ ProductOperand(const T* base, long long row_step, long long k_step,
                                            long long num_rows)
      : from(base),
        row(row_step),
        k(k_step),
        rows(static_cast<int>(num_rows < kRows ? num_rows : kRows)),
        along_k(step_size(k_step) <= step_size(row_step)) {}

  __device__ __forceinline__ int step_row() const { return along_k ? kPitchK : 1; }
  __device__ __forceinline__ int step_k() const { return along_k ? 1 : kPitchRow; }
  __device__ __forceinline__ void begin(T* tile, long long first_k, long long depth) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kProductThreads;
      const int r = along_k ? at / kDepth : at % kRows;
      const int at_k = along_k ? at % kDepth : at / kRows;
      const bool inside = r < rows && first_k + at_k < depth;
      cp_async<sizeof(T)>(shared_address(tile + r * step_row() + at_k * step_k()),
                          inside ? from + r * row + (first_k + at_k) * k : from,
                          inside ? static_cast<int>(sizeof(T)) : 0);
    }
  }
};

template <class T>
struct ProductTile {
  using P = ProductParts<T>;
  static constexpr int kM = sizeof(T) == 16 ? kProductWideM : kProductM;
  static constexpr int kN = kProductN;
  static constexpr int kDepth = sizeof(T) == 16 ? kProductWideK : kProductK;
  static constexpr int kRowTiles = kM / 2 / 16;  // of a warp
  static constexpr int kColTiles = kN / 2 / 8;
  using OperandA = ProductOperand<T, kM, kDepth>;
  using OperandB = ProductOperand<T, kN, kDepth>;
  static constexpr int kStageElems = OperandA::kElems + OperandB::kElems;

  double c[kRowTiles][kColTiles][P::kCount][4] = {};

  __device__ __forceinline__ void multiply(const OperandA& a, const OperandB& b, const T* tile_a,
                                           const T* tile_b, int first_row, int first_col) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int a_row = a.step_row();
    const int a_k = a.step_k();
    const int b_row = b.step_row();
    const int b_k = b.step_k();
    const T* from_a = tile_a + (first_row + g) * a_row + t * a_k;
    const T* from_b = tile_b + (first_col + g) * b_row + t * b_k;
#pragma unroll 1  // for registers
    for (int k = 0; k < kDepth; k += 8) {
      double y[kColTiles][P::kCount][2];
#pragma unroll
      for (int n = 0; n < kColTiles; ++n)
#pragma unroll
        for (int kh = 0; kh < 2; ++kh) {
          const T x = from_b[n * 8 * b_row + (k + 4 * kh) * b_k];
#pragma unroll
          for (int p = 0; p < P::kCount; ++p) y[n][p][kh] = P::get(x, p);
        }
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        double x[P::kCount][4];
        double minus_im[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const T value = from_a[(m * 16 + i % 2 * 8) * a_row + (k + i / 2 * 4) * a_k];
#pragma unroll
          for (int p = 0; p < P::kCount; ++p) x[p][i] = P::get(value, p);
          minus_im[i] = -P::get(value, P::kCount - 1);
        }
#pragma unroll
        for (int n = 0; n < kColTiles; ++n) {
          multiply_doubles(c[m][n][0], x[0], y[n][0]);
          if constexpr (P::kCount == 2) {
            multiply_doubles(c[m][n][0], minus_im, y[n][1]);
            multiply_doubles(c[m][n][1], x[0], y[n][1]);
            multiply_doubles(c[m][n][1], x[1], y[n][0]);
          }
        }
      }
    }
  }

  // Rows and columns that exist, from the warp's first on.
  __device__ __forceinline__ void store(const Matrix<T>& to, long long rows, long long cols,
                                        bool subtract) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (int n = 0; n < kColTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = m * 16 + lane / 4 + i / 2 * 8;
          const int col = n * 8 + lane % 4 * 2 + i % 2;
          if (row >= rows || col >= cols) continue;
          const T sum = P::join(c[m][n][0][i], c[m][n][P::kCount - 1][i]);
          T& element = to(row, col);
          element = subtract ? element - sum : sum;
        }
  }
};

template <class T>
__global__ __launch_bounds__(kProductThreads, sizeof(T) == 8 ? 3 : 2) void matrix_product(
    const __grid_constant__ ProductArgs args) {
  using Tile = ProductTile<T>;
  constexpr int kDepth = Tile::kDepth;
  const long long tiles_n = (args.n + Tile::kN - 1) / Tile::kN;
  const long long tiles_m = (args.m + Tile::kM - 1) / Tile::kM;
  const long long first_n = blockIdx.x % tiles_n * Tile::kN;
  const long long first_m = blockIdx.x / tiles_n % tiles_m * Tile::kM;
  const long long batch = blockIdx.x / tiles_n / tiles_m;
  const typename Tile::OperandA a(&Matrix<T>(args.a, batch)(first_m, 0), args.a.row, args.a.col,
                                  args.m - first_m);
  const typename Tile::OperandB b(&Matrix<T>(args.b, batch)(0, first_n), args.b.col, args.b.row,
                                  args.n - first_n);
  const auto stage = [&](long long i) {
    return reinterpret_cast<T*>(dynamic_shared()) + i % kProductStages * Tile::kStageElems;
  };
  const long long steps = (args.k + kDepth - 1) / kDepth;
  const auto begin = [&](long long i) {
    if (i < steps) {
      a.begin(stage(i), i * kDepth, args.k);
      b.begin(stage(i) + Tile::OperandA::kElems, i * kDepth, args.k);
    }
    cp_async_commit();
  };
#pragma unroll
  for (int i = 0; i < kProductStages - 1; ++i) begin(i);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / 2 * (Tile::kM / 2);
  const int col = warp % 2 * (Tile::kN / 2);
  Tile tile;
  for (long long i = 0; i < steps; ++i) {
    cp_async_wait<kProductStages - 2>();
    __syncthreads();  // this stage has arrived, the one before it has been read
    begin(i + kProductStages - 1);
    tile.multiply(a, b, stage(i), stage(i) + Tile::OperandA::kElems, row, col);
  }
  tile.store(Matrix<T>(args.c, batch).from(first_m + row, first_n + col), args.m - first_m - row,
             args.n - first_n - col, args.subtract != 0);
}

}  // namespace gpk
