// C = epilogue(A B), both e4m3 or both e2m1 with a scale per 32 or 16 of k, by mma.sync with block
// scales (SM120): mxfp8, mxfp4, nvfp4. A and B K-major, rows on 16 bytes; K is counted in bytes
// here. Scales are [rows, groups] bytes: a thread loads the words of its rows of A and columns of B
// for the next tile, 128 bytes of K, while the tensor cores multiply this one. Grid, shared memory
// and stores as in gemm_mma.cuh; float32 results.
#pragma once

#include "common/mma_scaled.cuh"
#include "matmul/gemm_mma.cuh"

namespace gpk {

template <int kCode, int kScale, int kTileM, int kTileN, int kWarpM, int kWarpN, int kStages>
struct GemmScaledMma {
  using Bytes = float8_e4m3fn;  // any type of one byte
  static constexpr int kTileK = 128;
  using Gemm = GemmMma<Bytes, Bytes, float, kTileM, kTileN, kTileK, kWarpM, kWarpN, kStages, true,
                       true, 16, 16>;
  using Mma = ScaledMma<kCode, kScale>;
  static constexpr int kBlocksM = Gemm::kBlocksM;
  static constexpr int kBlocksN = Gemm::kBlocksN;
  static constexpr int kWords = Mma::kBytes;  // of scales of a row and tile: four steps
  static_assert(Gemm::kSteps == 4);

  struct Scales {
    unsigned a[kBlocksM][kWords];
    unsigned b[kBlocksN * 2][kWords];
  };

  // Where this thread's scales are.
  struct ScaleFeed {
    const unsigned char* a;  // of its first row of A
    const unsigned char* b;  // of its first column of B
    int rows, cols;          // that exist from there on, at least one
    int at;                  // the next byte of a row

    // Four scales; 0 past the last. `row` starts on four bytes where groups are a multiple of it.
    __device__ __forceinline__ static unsigned word(const unsigned char* row, int at, int groups) {
      if (groups % 4 == 0) return at < groups ? *reinterpret_cast<const unsigned*>(row + at) : 0u;
      unsigned bytes = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (at + i < groups) bytes |= static_cast<unsigned>(row[at + i]) << (8 * i);
      return bytes;
    }
    __device__ __forceinline__ void load(const ScaledTileArgs& args, Scales& scales) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int i = 0; i < kBlocksM; ++i)
          scales.a[i][w] = word(a + min(i * 16, rows - 1) * args.groups, at + 4 * w,
                                static_cast<int>(args.groups));
#pragma unroll
        for (int j = 0; j < kBlocksN * 2; ++j)
          scales.b[j][w] = word(b + min(j * 8, cols - 1) * args.groups, at + 4 * w,
                                static_cast<int>(args.groups));
      }
      at += 4 * kWords;
    }
  };

  // Rows and columns that there are not have the scales of the last: their elements are 0.
  static __device__ __forceinline__ ScaleFeed scale_feed(const MatmulArgs& args,
                                                         const ScaledTileArgs& scaled,
                                                         long long warp_m, long long warp_n,
                                                         long long first_k) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const long long row = min(warp_m + lane / 4 + lane % 2 * 8, args.m - 1);
    const long long col = min(warp_n + lane / 4, args.n - 1);
    return {scaled.a + row * scaled.groups, scaled.b + col * scaled.groups,
            static_cast<int>(min(args.m - row, static_cast<long long>(kWarpM))),
            static_cast<int>(min(args.n - col, static_cast<long long>(kWarpN))),
            static_cast<int>(first_k / kTileK) * 4 * kWords};
  }

  template <int kStep>
  static __device__ __forceinline__ void multiply(const typename Gemm::FragmentsA& from_a,
                                                  const typename Gemm::FragmentsB& from_b,
                                                  unsigned stage, const Scales& scales,
                                                  float (&acc)[kBlocksM][kBlocksN * 2][4]) {
    typename Gemm::Step fragments;
    fragments.load(from_a, from_b, stage, kStep);
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
      for (int j = 0; j < kBlocksN * 2; ++j)
        Mma::template run<kStep>(acc[i][j], fragments.a[i], fragments.b[j / 2][j % 2 * 2],
                                 fragments.b[j / 2][j % 2 * 2 + 1], scales.a[i], scales.b[j]);
  }

  static __device__ __forceinline__ void sum(const MatmulArgs& args, const ScaledTileArgs& scaled,
                                             typename Gemm::Feed& feed, ScaleFeed& scale_feed,
                                             unsigned shared, int warp_m, int warp_n,
                                             float (&acc)[kBlocksM][kBlocksN * 2][4]) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const typename Gemm::FragmentsA from_a(warp_m, lane);
    const typename Gemm::FragmentsB from_b(warp_n, lane);
    const int num_tiles = (feed.k_left + kTileK - 1) / kTileK;
    Scales ahead;
    scale_feed.load(scaled, ahead);
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      feed.begin(args, shared + s * Gemm::kStageBytes);
      feed.end(shared + s * Gemm::kStageBytes);
    }
    unsigned read = shared;
    unsigned write = shared + (kStages - 1) * Gemm::kStageBytes;
    const unsigned last = write;
    for (int tile = 0; tile < num_tiles; ++tile) {
      cp_async_wait<kStages - 2>();
      __syncthreads();
      feed.begin(args, write);
      feed.end(write);
      const Scales scales = ahead;
      scale_feed.load(scaled, ahead);
      multiply<0>(from_a, from_b, read, scales, acc);
      multiply<1>(from_a, from_b, read, scales, acc);
      multiply<2>(from_a, from_b, read, scales, acc);
      multiply<3>(from_a, from_b, read, scales, acc);
      write = read;
      read = read == last ? shared : read + Gemm::kStageBytes;
    }
    cp_async_wait<0>();
    __syncthreads();
  }
};

template <int kCode, int kScale, int kTileM, int kTileN, int kWarpM, int kWarpN, int kStages>
__global__ void __launch_bounds__(kTileM / kWarpM * (kTileN / kWarpN) * 32, 1)
    gemm_scaled_mma_kernel(const __grid_constant__ MatmulArgs args,
                           const __grid_constant__ EpilogueArgs epilogue,
                           const __grid_constant__ TileGrid grid,
                           const __grid_constant__ ScaledTileArgs scaled) {
  using Scaled = GemmScaledMma<kCode, kScale, kTileM, kTileN, kWarpM, kWarpN, kStages>;
  using Gemm = typename Scaled::Gemm;
  using Bytes = typename Scaled::Bytes;
  unsigned char* const memory = dynamic_shared();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_m = warp % Gemm::kWarpsM * kWarpM;
  const int warp_n = warp / Gemm::kWarpsM * kWarpN;
  float acc[Gemm::kBlocksM][Gemm::kBlocksN * 2][4] = {};
  {
    typename Gemm::Feed feed =
        tile_feed<Gemm, Bytes, Bytes, kTileM, kTileN, true, true>(args, grid);
    const TilePlace place = tile_place(grid);
    typename Scaled::ScaleFeed scale_feed = Scaled::scale_feed(
        args, scaled, static_cast<long long>(place.m) * kTileM + warp_m,
        static_cast<long long>(place.n) * kTileN + warp_n, blockIdx.y * args.k_per_split);
    Scaled::sum(args, scaled, feed, scale_feed, shared_address(memory), warp_m, warp_n, acc);
  }
  store_tile<Gemm, float, kTileM, kTileN>(args, epilogue, grid, memory, warp, warp_m, warp_n, acc);
}

}  // namespace gpk
