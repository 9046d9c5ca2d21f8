// C = epilogue(A B), batched, float32 FMAs in order of k. Layouts, alignments, grid: as in
// gemm_mma.cuh (kAlignA, kAlignB: 16, 8 or 4 bytes). A block computes kTileM x kTileN; a warp is 8
// x 4 threads of kPerM x kPerN elements, in groups of four rows and columns a warp's width apart.
// Shared memory (dynamic): a ring of kStages tiles of A as [k][m] and B as [k][n]; a K-major
// operand is transposed by the copy, four bytes at a time. Lane bits alternate between n and m: two
// quarters of a warp then read the same 64 bytes, and a 16-byte load takes two cycles instead of
// four. Tile shapes: engine_simt.cpp.
#pragma once

#include "matmul/gemm_copy.cuh"
#include "matmul/gemm_store.cuh"

namespace gpk {

// Lines of k; transposed ones are padded so that copies of 8 k x 4 rows hit all 32 banks.
template <int kTile, int kTileK, bool kTransposed>
struct SimtLayout {
  static constexpr int kLines = kTileK;
  static constexpr int kLineElems = kTile;
  static constexpr int kLineBytes = kTile * 4;
  static constexpr int kPitchBytes = kLineBytes + (kTransposed ? 16 : 0);
  static constexpr int kBytes = kLines * kPitchBytes;
  static constexpr int kPeriod = 1;
  static __device__ __forceinline__ unsigned offset(int line, int byte) {
    return static_cast<unsigned>(line * kPitchBytes + byte);
  }
};

// Copies from [row][k] to [k][row]: eight threads load a sector of a row.
template <class Layout, int kTile, int kTileK, int kThreads>
struct TransposedCopy {
  static constexpr int kRowStep = kThreads / 8;
  static constexpr int kRowSteps = kTile / kRowStep;
  static_assert(kTile % kRowStep == 0 && kTileK % 8 == 0, "every thread copies as much");

  const char* from;
  unsigned first_to;

  __device__ __forceinline__ TransposedCopy(const float* first, long long pitch) {
    from = reinterpret_cast<const char*>(first + row() * pitch + k());
    first_to = Layout::offset(k(), row() * 4);
  }

  __device__ __forceinline__ void begin(unsigned shared, int rows, int k_left, long long pitch,
                                        const void* operand) {
    if (rows >= kTile && k_left >= kTileK) {
      copy<true>(shared, 0, 0, pitch * (kRowStep * 4), operand);
    } else {
      copy<false>(shared, rows, k_left, pitch * (kRowStep * 4), operand);
    }
    from += kTileK * 4;
  }

 private:
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / 8; }
  static __device__ __forceinline__ int k() { return static_cast<int>(threadIdx.x) % 8; }

  template <bool kWhole>
  __device__ __forceinline__ void copy(unsigned shared, int rows, int k_left,
                                       long long row_step_bytes, const void* operand) const {
    const char* p = from;
#pragma unroll
    for (int i = 0; i < kRowSteps; ++i) {
#pragma unroll
      for (int j = 0; j < kTileK; j += 8) {
        const unsigned to = shared + first_to + static_cast<unsigned>(j * Layout::kPitchBytes) +
                            static_cast<unsigned>(i * kRowStep * 4);
        if constexpr (kWhole) {
          cp_async<4>(to, p + j * 4);
        } else {
          const bool inside = row() + i * kRowStep < rows && k() + j < k_left;
          cp_async<4>(to, inside ? p + j * 4 : operand, inside ? 4 : 0);
        }
      }
      p += row_step_bytes;
    }
  }
};

template <int kTile, int kTileK, int kThreads, bool kKMajor, int kAlign>
struct SimtOperand {
  using Layout = SimtLayout<kTile, kTileK, kKMajor>;
  using Copy = TileCopy<float, Layout, kAlign, kThreads>;
};
template <int kTile, int kTileK, int kThreads, int kAlign>
struct SimtOperand<kTile, kTileK, kThreads, true, kAlign> {
  using Layout = SimtLayout<kTile, kTileK, true>;
  using Copy = TransposedCopy<Layout, kTile, kTileK, kThreads>;
};

template <int kTileM, int kTileN, int kTileK, int kPerM, int kPerN, int kStages, bool kAKMajor,
          bool kBKMajor, int kAlignA, int kAlignB>
struct GemmSimt {
  static constexpr int kWarpM = 8 * kPerM;
  static constexpr int kWarpN = 4 * kPerN;
  static constexpr int kWarpsM = kTileM / kWarpM;
  static constexpr int kThreads = kWarpsM * (kTileN / kWarpN) * 32;
  using OperandA = SimtOperand<kTileM, kTileK, kThreads, kAKMajor, kAlignA>;
  using OperandB = SimtOperand<kTileN, kTileK, kThreads, kBKMajor, kAlignB>;
  using LayoutA = typename OperandA::Layout;
  using LayoutB = typename OperandB::Layout;
  using CopyA = typename OperandA::Copy;
  using CopyB = typename OperandB::Copy;
  static constexpr int kStageBytes = LayoutA::kBytes + LayoutB::kBytes;
  static constexpr int kBytesOut = 16 * (kWarpN + 8) * 4;  // of a warp's 16 rows of accumulators

  struct Line {  // one k of the thread's rows and columns
    unsigned a[kPerM / 4][4];
    unsigned b[kPerN / 4][4];

    __device__ __forceinline__ void load(unsigned at_a, unsigned at_b, int k) {
#pragma unroll
      for (int i = 0; i < kPerM / 4; ++i)
        load_shared(a[i], at_a + static_cast<unsigned>(k * LayoutA::kPitchBytes + i * 128));
#pragma unroll
      for (int j = 0; j < kPerN / 4; ++j)
        load_shared(b[j], at_b + static_cast<unsigned>(k * LayoutB::kPitchBytes + j * 64));
    }
    __device__ __forceinline__ void multiply(float (&acc)[kPerM][kPerN]) const {
#pragma unroll
      for (int i = 0; i < kPerM; ++i)
#pragma unroll
        for (int j = 0; j < kPerN; ++j) {
          // Serpentine order: adjacent FMAs share registers.
          const int n = i % 2 == 0 ? j : kPerN - 1 - j;
          acc[i][n] =
              fmaf(__uint_as_float(a[i / 4][i % 4]), __uint_as_float(b[n / 4][n % 4]), acc[i][n]);
        }
    }
  };

  struct Feed {
    CopyA a;
    CopyB b;
    int rows, cols;  // of A and B that exist, from the tile on
    int k_left;

    __device__ __forceinline__ void next(const MatmulArgs& args, unsigned stage) {
      if (k_left > 0) {
        if constexpr (kAKMajor) {
          a.begin(stage, rows, k_left, args.a_m, args.a);
        } else {
          a.begin(stage, k_left, rows, args.a_k, args.a_k * kTileK, args.a);
        }
        if constexpr (kBKMajor) {
          b.begin(stage + LayoutA::kBytes, cols, k_left, args.b_n, args.b);
        } else {
          b.begin(stage + LayoutA::kBytes, k_left, cols, args.b_k, args.b_k * kTileK, args.b);
        }
      }
      cp_async_commit();
      k_left -= kTileK;
    }
  };

  // `at_a`, `at_b`: the thread's first row and column in the first stage.
  static __device__ __forceinline__ void sum(const MatmulArgs& args, Feed& feed, unsigned shared,
                                             unsigned at_a, unsigned at_b,
                                             float (&acc)[kPerM][kPerN]) {
    const int num_tiles = (feed.k_left + kTileK - 1) / kTileK;
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) feed.next(args, shared + s * kStageBytes);
    cp_async_wait<kStages - 2>();
    __syncthreads();
    constexpr unsigned kLast = (kStages - 1) * kStageBytes;
    unsigned read = 0;
    unsigned write = kLast;
    Line lines[2];
    if (num_tiles > 0) lines[0].load(at_a, at_b, 0);
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
#pragma unroll
      for (int k = 0; k < kTileK; ++k) {
        if (k == kTileK - 1) {
          cp_async_wait<kStages - 2>();
          __syncthreads();
          write = read;
          read = read == kLast ? 0 : read + kStageBytes;
        }
        lines[(k + 1) % 2].load(at_a + read, at_b + read, (k + 1) % kTileK);
        if (k == 0) feed.next(args, shared + write);
        lines[k % 2].multiply(acc);
      }
    }
  }

  // Rows 2 block and 2 block + 1 of all threads are the block's 16 rows.
  struct Rows {
    static __device__ __forceinline__ int row(int block, int half, int g) {
      const int i = 2 * block + half;
      return i / 4 * 32 + g * 4 + i % 4;
    }
  };

  // `zero` is 0, which the compiler must not know: stores directly from the accumulator registers
  // would force those to be adjacent, and FMAs would suffer register bank conflicts.
  static __device__ __forceinline__ void store(
      const WarpStore<float, float, kWarpN, Rows, true>& to, float* out, int lane_m, int lane_n,
      unsigned zero, const float (&acc)[kPerM][kPerN]) {
#pragma unroll 1  // one copy of the epilogue's code: halves compile time
    for (int block = 0; block < kPerM / 2; ++block) {
#pragma unroll
      for (int i = 0; i < kPerM; ++i) {
        if (i / 2 != block) continue;
#pragma unroll
        for (int j = 0; j < kPerN; j += 4) {
          Vec<float, 4> v;
#pragma unroll
          for (int e = 0; e < 4; ++e)
            v.v[e] = __uint_as_float(__float_as_uint(acc[i][j + e]) | zero);
          store_vec<float, 4>(out + (i % 2 * 8 + lane_m) * to.kPitch + lane_n * 4 + j * 4, v);
        }
      }
      __syncwarp();
      to.run(out, block);
      __syncwarp();
    }
  }
};

template <int kTileM, int kTileN, int kTileK, int kPerM, int kPerN, int kStages, bool kAKMajor,
          bool kBKMajor, int kAlignA, int kAlignB>
__global__ void __launch_bounds__(kTileM / kPerM * (kTileN / kPerN),
                                  kTileM / kPerM * (kTileN / kPerN) <= 128 ? 2 : 1)
    gemm_simt_kernel(const __grid_constant__ MatmulArgs args,
                     const __grid_constant__ EpilogueArgs epilogue,
                     const __grid_constant__ TileGrid grid) {
  using Gemm =
      GemmSimt<kTileM, kTileN, kTileK, kPerM, kPerN, kStages, kAKMajor, kBKMajor, kAlignA, kAlignB>;
  extern __shared__ __align__(128) unsigned char gemm_shared[];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane_n = (lane & 1) | (lane >> 1 & 2);
  const int lane_m = (lane >> 1 & 1) | (lane >> 2 & 6);
  const int thread_m = warp % Gemm::kWarpsM * Gemm::kWarpM + lane_m * 4;
  const int thread_n = warp / Gemm::kWarpsM * Gemm::kWarpN + lane_n * 4;

  float acc[kPerM][kPerN] = {};
  {
    typename Gemm::Feed feed =
        tile_feed<Gemm, float, float, kTileM, kTileN, kAKMajor, kBKMajor>(args, grid);
    const unsigned shared = shared_address(gemm_shared);
    Gemm::sum(args, feed, shared, shared + static_cast<unsigned>(thread_m * 4),
              shared + Gemm::LayoutA::kBytes + static_cast<unsigned>(thread_n * 4), acc);
  }
  const auto zero = static_cast<unsigned>(static_cast<unsigned long long>(args.splits) >> 40);
  cp_async_wait<0>();
  __syncthreads();
  const int warp_m = thread_m - lane_m * 4;
  const int warp_n = thread_n - lane_n * 4;
  float* const out = reinterpret_cast<float*>(gemm_shared + warp * Gemm::kBytesOut);
  const TilePlace place = tile_place(grid);
  const long long first_m = static_cast<long long>(place.m) * kTileM;
  const long long first_n = static_cast<long long>(place.n) * kTileN;
  // Partial sums have C's type: both use the same store code.
  const bool partial = args.partial != nullptr;
  const TileTarget<float> target =
      partial ? partial_target<float>(args, first_m, first_n, place.batch, kTileM, kTileN)
              : result_target<float>(args, first_m, first_n, batch_offsets(args, place.batch).c,
                                     kTileM, kTileN);
  Gemm::store({target, epilogue, grid, partial ? 0 : grid.flags, first_m, first_n, place.batch,
               warp_m, warp_n},
              out, lane_m, lane_n, zero, acc);
}

}  // namespace gpk
