// gemv.cuh and gemv_columns.cuh for up to 64 rows of x on tensor cores (SM80+), 16 bits: w is the
// 16-row operand, x the 8-column one, both loaded from global memory into fragments. Any k may go
// into any slot of the instruction as long as both operands agree: thread t of four takes the 16
// bytes from 8t on of each 32 elements of k for two steps of 16. Columns: a thread has 8 columns of
// w and 4 rows (4t on of 16); two rows form the pairs of k.
// grid: x = blocks of j, y = split-K, z = batch; 256 threads. m <= 8 * kTilesM.
// The order of summation does not depend on m or on tiles: rows of x are columns of the
// instruction. kNorm: x is rmsnorm(x) (args.norm_weight), rounded, in m * (k + 32) elements of
// dynamic shared memory. kGated: y = silu(x w^T) * (x w'^T), w' being the n rows after w; kTilesN
// is 2.
#pragma once

#include "common/barrier.cuh"
#include "common/cp_async.cuh"
#include "common/shared.cuh"
#include "matmul/gemv_parts.cuh"

namespace gpk {

template <class T>
__device__ __forceinline__ void gemv_mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                         unsigned a3, unsigned b0, unsigned b1) {
  if constexpr (kIsSame<T, bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// Rows of x as they are in memory.
template <class T>
struct GemvRows {
  const T* x;
  long long pitch;

  __device__ __forceinline__ explicit GemvRows(const GemvArgs& args)
      : x(static_cast<const T*>(args.x) + blockIdx.z * args.x_batch), pitch(args.x_m) {}
  // 8 elements of a row; zeros where `valid` is false.
  __device__ __forceinline__ Chunk load(int row, int at, bool valid) const {
    return load_shared_input(x + row * pitch + at, valid);
  }
};

// x in shared memory, normalised and rounded, for kernels with kNorm. Rows are padded, so that the
// two rows of a quarter warp are in different banks. Sums are in the order of norm_rows with 256
// threads to a row: over a thread's chunks, the lanes, the warps.
template <class T, int kM>
class GemvNormedRows {
 public:
  static constexpr int kPad = 32;

  // Loads and normalises all rows. For all threads of the block.
  __device__ __forceinline__ explicit GemvNormedRows(const GemvArgs& args)
      : base_(shared_address(dynamic_shared())), pitch_(static_cast<int>(args.k) + kPad) {
    __shared__ float squares[kM][kGemvWarps];
    const int m = static_cast<int>(args.m);
    const int k = static_cast<int>(args.k);
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = 0; i < m; ++i)
      for (int at = thread * 8; at < k; at += 8 * kGemvThreads)
        cp_async<16>(address(i, at), static_cast<const T*>(args.x) + i * args.x_m + at);
    cp_async_commit();
    cp_async_wait<0>();
    for (int i = 0; i < m; ++i) {  // a thread reads what it copied
      float sum = 0.0f;
      for (int at = thread * 8; at < k; at += 8 * kGemvThreads) {
        float e[8];
        GemvWeight<T>::unpack(load(i, at), e);
#pragma unroll
        for (int v = 0; v < 8; ++v) sum = fmaf(e[v], e[v], sum);
      }
#pragma unroll
      for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
      if (thread % 32 == 0) squares[i][thread / 32] = sum;
    }
    __syncthreads();
    for (int at = thread * 8; at < k; at += 8 * kGemvThreads) {
      float w[8];
      GemvWeight<T>::unpack(load_shared_input(static_cast<const T*>(args.norm_weight) + at, true),
                            w);
      for (int i = 0; i < m; ++i) {
        float sum = squares[i][0];
#pragma unroll
        for (int warp = 1; warp < kGemvWarps; ++warp) sum += squares[i][warp];
        const float scale = rsqrtf(sum / static_cast<float>(k) + args.norm_eps);
        float e[8];
        GemvWeight<T>::unpack(load(i, at), e);
        Chunk y;
        T* const rounded = reinterpret_cast<T*>(y.v);
#pragma unroll
        for (int v = 0; v < 8; ++v)  // every step rounds, as in norm.cuh
          rounded[v] =
              convert<T>(__fmul_rn(__fmul_rn(e[v], scale), __fadd_rn(args.norm_offset, w[v])));
        store_shared_quad(address(i, at), y.v);
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ Chunk load(int row, int at, bool valid = true) const {
    Chunk c{};
    if (valid) load_shared_quad(address(row, at), c.v);
    return c;
  }

 private:
  __device__ __forceinline__ unsigned address(int row, int at) const {
    return base_ + static_cast<unsigned>(row * pitch_ + at) * 2;
  }

  unsigned base_;
  int pitch_;
};

template <class T, int kM, bool kNorm>
struct GemvInput {
  using Type = GemvRows<T>;
};
template <class T, int kM>
struct GemvInput<T, kM, true> {
  using Type = GemvNormedRows<T, kM>;
};

// Bases, pitches and k are multiples of 16 bytes. A warp has kTilesN times 16 rows of w and blocks
// of 32 * kUnroll of k; the block steps through the tiles of w, one grid apart.
template <class T, int kTilesM, int kTilesN, int kUnroll, int kOrder, bool kNorm, bool kGated>
__global__ void __launch_bounds__(kGemvThreads, kTilesM == 1 && kGated && !kNorm ? 1 : 0)
    gemv_mma_kernel(const __grid_constant__ GemvArgs args,
                    const __grid_constant__ EpilogueArgs epilogue) {
  constexpr int kM = 8 * kTilesM;
  constexpr int kRows = 16 * kTilesN;
  constexpr int kColumns = kGated ? 16 : kRows;  // of y
  static_assert(!kGated || kTilesN == 2);
  constexpr int kPitch = kRows + 4;  // no bank conflicts between the threads of a store
  constexpr int kBlockK = 32 * kUnroll;
  __shared__ float sums[kGemvWarps * kM * kPitch];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int k_warps = static_cast<int>(args.k_warps);
  const int tile_rows = kGemvWarps / k_warps * kColumns;
  const GemvRange range = gemv_range(args);
  const int step = k_warps * kBlockK;
  const int first_at = range.begin + warp % k_warps * kBlockK + t * 8;
  const int n = static_cast<int>(args.n);

  const T* w[kTilesN][2];
  Chunk ahead[kUnroll][kTilesN][2];
  int first_j = static_cast<int>(blockIdx.x) * tile_rows;
  const auto fetch_first = [&] {
    const int row = first_j + warp / k_warps * kColumns + g;
#pragma unroll
    for (int tile = 0; tile < kTilesN; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // rows past the end repeat the last one
        const int j = row + (kGated ? 0 : tile * 16) + half * 8;
        const long long of_w = (j < n ? j : n - 1) + (kGated ? tile * args.n : 0);
        w[tile][half] =
            static_cast<const T*>(args.w) + blockIdx.z * args.w_batch + of_w * args.w_pitch;
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          ahead[u][tile][half] =
              load_weights(w[tile][half] + first_at + u * 32, first_at + u * 32 < range.end);
  };
  gemv_begin<kOrder>();
  fetch_first();
  gemv_before_input<kOrder>();
  const typename GemvInput<T, kM, kNorm>::Type x(args);
  while (true) {
    float acc[kTilesN][kTilesM][4] = {};
    for (int at = first_at; at - t * 8 < range.end; at += step) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int here = at + u * 32;
        Chunk a[kTilesN][2];
#pragma unroll
        for (int tile = 0; tile < kTilesN; ++tile) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            a[tile][half] = ahead[u][tile][half];
            ahead[u][tile][half] =
                load_weights(w[tile][half] + here + step, here + step < range.end);
          }
        }
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          const Chunk b = x.load(8 * i + g, here, 8 * i + g < args.m && here < range.end);
#pragma unroll
          for (int tile = 0; tile < kTilesN; ++tile) {
            const Chunk& a0 = a[tile][0];
            const Chunk& a1 = a[tile][1];
            gemv_mma<T>(acc[tile][i], a0.v[0], a1.v[0], a0.v[1], a1.v[1], b.v[0], b.v[1]);
            gemv_mma<T>(acc[tile][i], a0.v[2], a1.v[2], a0.v[3], a1.v[3], b.v[2], b.v[3]);
          }
        }
      }
    }

#pragma unroll
    for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          sums[(warp * kM + 8 * i + 2 * t + e % 2) * kPitch + tile * 16 + e / 2 * 8 + g] =
              acc[tile][i][e];
    gemv_finish_block<T, kM, kRows, kPitch, kGated>(args, epilogue, sums, k_warps, 0, first_j);
    first_j += static_cast<int>(gridDim.x) * tile_rows;
    if (first_j >= n) break;
    __syncthreads();  // the sums have been read
    fetch_first();
  }
}

constexpr int kGemvMmaColumns = 128;

// w [k, n], its base, pitch and n multiples of 16 bytes; k a multiple of 4, rows of x of 8 bytes.
// The warps of a block share 128 columns and take 16 rows of w each, round-robin.
template <class T, int kTilesM, int kOrder>
__global__ void __launch_bounds__(kGemvThreads)
    gemv_mma_columns_kernel(const __grid_constant__ GemvArgs args,
                            const __grid_constant__ EpilogueArgs epilogue) {
  constexpr int kPitch = kGemvMmaColumns + 4;
  constexpr int kStep = kGemvWarps * 16;
  __shared__ alignas(16) float sums[kGemvWarps * 8 * kPitch];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int first_j = static_cast<int>(blockIdx.x) * kGemvMmaColumns;
  const int column = first_j + g * 8;
  const GemvRange range = gemv_range(args);
  // The ends of K for the two halves: threads past the last column load nothing.
  const int ends[2] = {column < args.n ? range.end : range.begin,
                       column + 64 < args.n ? range.end : range.begin};
  int at = range.begin + warp * 16 + t * 4;
  const T* w =
      static_cast<const T*>(args.w) + blockIdx.z * args.w_batch + column + at * args.w_pitch;

  gemv_begin<kOrder>();
  Chunk ahead[2][4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      ahead[half][r] = load_weights(w + half * 64, at < ends[half]);
    w += args.w_pitch;
  }
  const long long to_next = (kStep - 4) * args.w_pitch;

  gemv_before_input<kOrder>();
  const T* x = static_cast<const T*>(args.x) + blockIdx.z * args.x_batch + g * args.x_m;
  float acc[8][kTilesM][4] = {};
  for (; at - t * 4 < range.end; at += kStep) {
    uint2 b[kTilesM];
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      b[i] = make_uint2(0, 0);
      if (8 * i + g < args.m && at < range.end)
        b[i] = *reinterpret_cast<const uint2*>(x + 8 * i * args.x_m + at);
    }
    // pairs[half][k pair][column]
    unsigned pairs[2][2][8];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          pairs[half][p][j] =
              __byte_perm(ahead[half][2 * p].v[j / 2], ahead[half][2 * p + 1].v[j / 2],
                          j % 2 == 0 ? 0x5410 : 0x7632);
    w += to_next;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        ahead[half][r] = load_weights(w + half * 64, at + kStep < ends[half]);
      w += args.w_pitch;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        gemv_mma<T>(acc[j][i], pairs[0][0][j], pairs[1][0][j], pairs[0][1][j], pairs[1][1][j],
                    b[i].x, b[i].y);
  }

#pragma unroll
  for (int i = 0; i < kTilesM; ++i) {
    if (i > 0) __syncthreads();  // the previous tile's sums have been read
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float* to = sums + (warp * 8 + 2 * t + e % 2) * kPitch + e / 2 * 64 + g * 8;
#pragma unroll
      for (int j = 0; j < 8; j += 4)
        *reinterpret_cast<float4*>(to + j) =
            make_float4(acc[j][i][e], acc[j + 1][i][e], acc[j + 2][i][e], acc[j + 3][i][e]);
    }
    gemv_finish_block<T, 8, kGemvMmaColumns, kPitch>(args, epilogue, sums, kGemvWarps, 8 * i,
                                                     first_j);
  }
}

}  // namespace gpk
