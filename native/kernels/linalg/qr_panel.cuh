// Householder QR of a tall panel by several blocks for each matrix (grid: panel.cuh), each of which
// has rows_per_block rows in dynamic shared memory (rows of odd pitch); reflectors as in qr.cuh.
// The columns are scaled by powers of two to a largest element in [1, 2) first, so squares neither
// overflow nor, but for what is below epsilon^2 of the column and becomes 0, underflow.
// For column j the blocks add up A^H a_j over the rows below j, which gives the norm of the column,
// the factors of all columns to its right and, from those to its left, the column of V^H V that T
// comes from: one exchange for each column.
#pragma once

#include "linalg/panel.cuh"

namespace gpk {

template <class T>
struct QrPanel {
  using N = Number<T>;
  using R = RealOf<T>;
  static constexpr int kWarps = kPanelThreads / 32;
  static constexpr int kCols = sizeof(T) == 16 ? kQrPanelWideCols : kQrPanelCols;
  static constexpr int kLaneCols = kCols / 32;
  static constexpr int kWords = sizeof(T) / 4;
  using Line = T[kLaneCols];  // a lane's columns: lane, lane + 32, ...
  using Exchange = PanelExchange<T, kQrPanelBlocks>;

  struct Reflector {
    T tau, inverse;  // of alpha - beta, which v is divided by
    R beta;
  };

  const QrPanelArgs& args;
  PanelRows rows;
  int pitch, lane, warp, blocks;
  T* parts;  // of sums, twice [warp][column], in turn
  T* heads;  // row j, in turn
  T* grams;  // column j of V^H V, in turn
  T* t;
  int* exponents;  // of columns
  T* a;

  __device__ __forceinline__ explicit QrPanel(const QrPanelArgs& given)
      : args(given),
        rows(given.rows, given.rows_per_block),
        pitch(odd_pitch(given.cols)),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        blocks(static_cast<int>(gridDim.x)) {
    parts = reinterpret_cast<T*>(dynamic_shared());
    heads = parts + 2 * kWarps * given.cols;
    grams = heads + 2 * given.cols;
    t = grams + 2 * given.cols;
    exponents = reinterpret_cast<int*>(t + given.cols * pitch);
    a = reinterpret_cast<T*>(exponents + (given.cols + 3) / 4 * 4);
  }

  __device__ __forceinline__ int column(int c) const { return lane + c * 32; }
  __device__ __forceinline__ T* head(int j) const { return heads + (j & 1) * args.cols; }
  __device__ __forceinline__ T* gram(int j) const { return grams + (j & 1) * args.cols; }

  template <bool kMax>
  static __device__ __forceinline__ T combine(T x, T y) {
    if constexpr (kMax) {
      return N::of(larger(N::real(x), N::real(y)));
    } else {
      return x + y;
    }
  }
  // Of the parts of all warps.
  template <bool kMax>
  __device__ __forceinline__ T fold(const T* part, int k) const {
    T all = part[k];
    for (int w = 1; w < kWarps; ++w) all = combine<kMax>(all, part[w * args.cols + k]);
    return all;
  }

  // What this block and, where kCount is 2, the one kWarps after it have published.
  template <bool kMax, int kCount>
  __device__ __forceinline__ void gather(const Exchange& words, Line& x) const {
    static_assert(kQrPanelBlocks == 2 * kWarps);
    float raw[kLaneCols * kWords * kCount];
    receive(words.number(lane, warp), Exchange::kStep / kCount,
            (args.cols - lane + 31) / 32 * kWords * kCount, words.tag, raw);
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c) {
      float one[kCount][kWords];
#pragma unroll
      for (int i = 0; i < kCount * kWords; ++i)
        one[i % kCount][i / kCount] = raw[c * kWords * kCount + i];
      x[c] = FromWords<T>::make(one[0]);
      if constexpr (kCount == 2) x[c] = combine<kMax>(x[c], FromWords<T>::make(one[1]));
    }
  }
  // This warp's share of all blocks.
  template <bool kMax>
  __device__ __forceinline__ void gather(const Exchange& words, Line& x) const {
    if (warp + kWarps < blocks) {
      gather<kMax, 2>(words, x);
    } else if (warp < blocks) {
      gather<kMax, 1>(words, x);
    } else {
#pragma unroll
      for (int c = 0; c < kLaneCols; ++c) x[c] = N::of(R(0));
    }
  }

  // From parts of warps to the whole of all blocks, for lanes' columns. The others get head(j)
  // from its owner, unless that is -1. between() is done while the blocks wait for each other.
  template <bool kMax, class Between>
  __device__ __forceinline__ void reduce(int j, unsigned tag, int owner, Line& x,
                                         const Between& between) const {
    T* part = parts + (blocks == 1 ? (j & 1) * kWarps * args.cols : 0);
    store_line(part + warp * args.cols, x);
    __syncthreads();
    between();
    if (blocks > 1) {
      const Exchange words(args.exchange + (args.first_matrix + blockIdx.y) * kPanelSlotWords, j,
                           tag);
      if (warp < kLaneCols) {
        const int k = warp * 32 + lane;
        if (k < args.cols) {
          words.put(k, fold<kMax>(part, k));
          if (owner == static_cast<int>(blockIdx.x)) words.put(kCols + k, head(j)[k]);
        }
      }
      gather<kMax>(words, x);
      part = parts + kWarps * args.cols;
      store_line(part + warp * args.cols, x);
      const bool gets_head = owner >= 0 && owner != static_cast<int>(blockIdx.x);
      if (gets_head && warp >= kWarps - kLaneCols) {
        const int k = (warp - (kWarps - kLaneCols)) * 32 + lane;
        if (k < args.cols) {
          float one[kWords];
          receive(words.number(kCols + k, owner), Exchange::kStep, kWords, tag, one);
          head(j)[k] = FromWords<T>::make(one);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c)
      x[c] = column(c) < args.cols ? fold<kMax>(part, column(c)) : N::of(R(0));
  }

  // Column j's element of every lane's line, for all lanes.
  static __device__ __forceinline__ T broadcast(const Line& x, int j) {
    if constexpr (kLaneCols == 1) {
      return shuffle(x[0], j);
    } else {
      static_assert(kLaneCols == 2);
      return j < 32 ? shuffle(x[0], j) : shuffle(x[1], j - 32);
    }
  }

  // Adds a row below j to the sums of column j.
  static __device__ __forceinline__ void add_row(const Line& x, int j, Line& sums) {
    const T by = N::conj(broadcast(x, j));
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c) sums[c] = sums[c] + by * x[c];
  }
  __device__ __forceinline__ void load_row(int i, Line& x) const {
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c)
      x[c] = column(c) < args.cols ? a[i * pitch + column(c)] : N::of(R(0));
  }
  __device__ __forceinline__ void store_line(T* to, const Line& x) const {
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c)
      if (column(c) < args.cols) to[column(c)] = x[c];
  }

  // The rows, scaled; and the sums of column 0.
  __device__ __forceinline__ void load(const Matrix<T>& from, Line& sums) const {
    Line big;
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c) big[c] = sums[c] = N::of(R(0));
    for (int i = warp; i < rows.count; i += kWarps)
#pragma unroll
      for (int c = 0; c < kLaneCols; ++c) {
        if (column(c) >= args.cols) continue;
        const T x = from(rows.first + i, column(c));
        a[i * pitch + column(c)] = x;
        big[c] = N::of(larger(N::real(big[c]), R(N::sum_of_parts(x))));
      }
    reduce<true>(-1, 0x80000000u | static_cast<unsigned>(args.first + 1), -1, big, [] {});
    constexpr int kLargest = sizeof(R) == 4 ? 125 : 1021;
    R scale[kLaneCols];
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c) {
      const R size = N::real(big[c]);
      int exponent = 0;
      if (size > R(0) && size - size == R(0)) exponent = ilogb(size);
      exponent = min(max(exponent, -kLargest), kLargest);
      scale[c] = ldexp(R(1), -exponent);
      if (warp == 0 && column(c) < args.cols) exponents[column(c)] = exponent;
    }
    for (int i = warp; i < rows.count; i += kWarps) {
      Line x;
      load_row(i, x);
#pragma unroll
      for (int c = 0; c < kLaneCols; ++c) x[c] = N::scale(x[c], scale[c]);
      store_line(a + i * pitch, x);
      if (rows.first + i > 0) {
        add_row(x, 0, sums);
      } else {
        store_line(head(0), x);
      }
    }
  }

  static __device__ __forceinline__ Reflector make_reflector(T alpha, R squares) {
    constexpr R kTiny = R(sizeof(R) == 4 ? 0x1p-100 : 0x1p-960);
    const bool nothing = squares < kTiny;
    if (nothing && N::imag(alpha) == R(0)) return {N::of(R(0)), N::of(R(0)), N::real(alpha)};
    const R re = N::real(alpha);
    const R im = N::imag(alpha);
    const R norm = nothing ? N::magnitude(alpha) : sqrt(re * re + im * im + squares);
    const R beta = -copysign(norm, re);
    const T difference = alpha - N::of(beta);
    return {N::over(difference, -beta), nothing ? N::of(R(0)) : N::of(R(1)) / difference, beta};
  }

  // Column j of T, by groups of eight threads.
  __device__ __forceinline__ void make_t(int j, T tau) const {
    const int part = static_cast<int>(threadIdx.x) % 8;
    const int i = static_cast<int>(threadIdx.x) / 8;
    static_assert(kPanelThreads / 8 >= kCols);
    T sum = N::of(R(0));
    if (i < j)
      for (int k = i + part; k < j; k += 8) sum = sum + t[i * pitch + k] * gram(j)[k];
#pragma unroll
    for (int mask = 4; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
    if (part == 0 && i <= j) t[i * pitch + j] = i == j ? tau : N::scale(tau * sum, R(-1));
  }

  // Applies the reflector of column j; the sums of column j + 1.
  __device__ __forceinline__ void update(int j, const Reflector& h, const Line& factors,
                                         Line& sums) const {
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c) sums[c] = N::of(R(0));
    // From row j on, every warp its own.
    const int behind = max(j - rows.first - warp, 0);
    for (int i = warp + (behind + kWarps - 1) / kWarps * kWarps; i < rows.count; i += kWarps) {
      Line x;
      load_row(i, x);
      const int row = rows.first + i;
      const T v = row == j ? N::of(R(1)) : broadcast(x, j) * h.inverse;
#pragma unroll
      for (int c = 0; c < kLaneCols; ++c) {
        if (column(c) > j) x[c] = x[c] - v * factors[c];
        if (column(c) == j) x[c] = row == j ? N::of(h.beta) : v;
      }
      store_line(a + i * pitch, x);
      if (row == j + 1) store_line(head(j + 1), x);
      if (row > j + 1 && j + 1 < args.cols) add_row(x, j + 1, sums);
    }
  }

  __device__ __forceinline__ void store(long long batch) const {
    const Matrix<T> r(args.a, batch);
    const Matrix<T> v(args.v, batch);
    for (int i = warp; i < rows.count; i += kWarps) {
      const int row = rows.first + i;
#pragma unroll
      for (int c = 0; c < kLaneCols; ++c) {
        const int k = column(c);
        if (k >= args.cols) continue;
        const T x = a[i * pitch + k];
        v(row, k) = row > k ? x : N::of(R(row == k ? 1 : 0));
        if (row <= k) r(row, k) = N::scale(x, ldexp(R(1), exponents[k]));
      }
    }
    if (blockIdx.x != 0) return;
    const Matrix<T> to(args.t, batch);
    for (int i = warp; i < args.cols; i += kWarps)
      for (int k = lane; k < args.cols; k += 32) to(i, k) = i <= k ? t[i * pitch + k] : N::of(R(0));
  }

  __device__ __forceinline__ void run() const {
    const long long batch = args.first_matrix + blockIdx.y;
    Line sums;
    load(Matrix<T>(args.a, batch), sums);
    T tau = N::of(R(0));
    for (int j = 0; j < args.cols; ++j) {
      reduce<false>(j, static_cast<unsigned>(args.first + j + 1), j / args.rows_per_block, sums,
                    [&] {
                      if (j > 0 && blockIdx.x == 0) make_t(j - 1, tau);
                    });
      const Reflector h = make_reflector(head(j)[j], N::real(broadcast(sums, j)));
      tau = h.tau;
      Line factors;
#pragma unroll
      for (int c = 0; c < kLaneCols; ++c) {
        const int k = min(column(c), args.cols - 1);
        const T inner = head(j)[k] + sums[c] * N::conj(h.inverse);
        if (warp == 0 && column(c) < j) gram(j)[k] = N::conj(inner);
        factors[c] = N::conj(h.tau) * inner;
      }
      update(j, h, factors, sums);
    }
    __syncthreads();
    if (blockIdx.x == 0) make_t(args.cols - 1, tau);
    __syncthreads();
    store(batch);
  }
};

template <class T>
__global__ __launch_bounds__(kPanelThreads,
                             1) void qr_panel(const __grid_constant__ QrPanelArgs args) {
  const QrPanel<T> panel(args);
  panel.run();
}

}  // namespace gpk
