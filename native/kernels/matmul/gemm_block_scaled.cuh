// C = epilogue(sum over blocks of 128 of k: scale_a[i, block] * scale_b[j / 128, block] * sum of
// the block), by mma.sync: e4m3, A and B K-major, rows on 16 bytes (SM89+). A block's sum is a tile
// of K: it is accumulated by the tensor cores, then multiplied by both scales and added to the
// result in float32. Grid, shared memory and stores as in gemm_mma.cuh; kTileN divides 128, so that
// a block of threads has one scale of B at a time. Split-K is by whole blocks of k.
#pragma once

#include "matmul/gemm_mma.cuh"

namespace gpk {

template <class TC, int kTileM, int kTileN, int kWarpM, int kWarpN, int kStages>
struct GemmBlockScaled {
  static constexpr int kScaleBlock = 128;
  static_assert(kScaleBlock % kTileN == 0, "one scale of B per tile");
  using E4M3 = float8_e4m3fn;
  using Gemm = GemmMma<E4M3, E4M3, TC, kTileM, kTileN, kScaleBlock, kWarpM, kWarpN, kStages, true,
                       true, 16, 16>;
  static constexpr int kBlocksM = Gemm::kBlocksM;
  static constexpr int kBlocksN = Gemm::kBlocksN;

  // The scales of this thread's rows, times that of B, block after block of k.
  struct Scales {
    const float* a;  // of the tile's first row
    const float* b;
    int rows;  // that exist
    int first_row;

    __device__ __forceinline__ void load(const BlockScaleArgs& args,
                                         float (&scale)[kBlocksM][2]) const {
      const float of_b = *b;
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = min(first_row + i * 16 + h * 8, rows - 1);
          scale[i][h] = a[row * args.a_m] * of_b;
        }
    }
    __device__ __forceinline__ void advance(const BlockScaleArgs& args) {
      a += args.a_k;
      b += args.b_k;
    }
  };

  static __device__ __forceinline__ void promote(float (&acc)[kBlocksM][kBlocksN * 2][4],
                                                 float (&part)[kBlocksM][kBlocksN * 2][4],
                                                 const float (&scale)[kBlocksM][2]) {
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
      for (int j = 0; j < kBlocksN * 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          acc[i][j][e] = fmaf(part[i][j][e], scale[i][e / 2], acc[i][j][e]);
          part[i][j][e] = 0.0f;
        }
  }

  static __device__ __forceinline__ void sum(const MatmulArgs& args, const BlockScaleArgs& scales,
                                             typename Gemm::Feed& feed, Scales at, unsigned shared,
                                             int warp_m, int warp_n,
                                             float (&acc)[kBlocksM][kBlocksN * 2][4]) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const typename Gemm::FragmentsA from_a(warp_m, lane);
    const typename Gemm::FragmentsB from_b(warp_n, lane);
    const int num_tiles = (feed.k_left + kScaleBlock - 1) / kScaleBlock;
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      feed.begin(args, shared + s * Gemm::kStageBytes);
      feed.end(shared + s * Gemm::kStageBytes);
    }
    unsigned read = shared;
    unsigned write = shared + (kStages - 1) * Gemm::kStageBytes;
    const unsigned last = write;
    float part[kBlocksM][kBlocksN * 2][4] = {};
    for (int tile = 0; tile < num_tiles; ++tile) {
      float scale[kBlocksM][2];
      at.load(scales, scale);  // used after the block's MMAs: they hide the latency
      at.advance(scales);
      cp_async_wait<kStages - 2>();
      __syncthreads();
      feed.begin(args, write);
#pragma unroll
      for (int step = 0; step < Gemm::kSteps; ++step) {
        typename Gemm::Step fragments;
        fragments.load(from_a, from_b, read, step);
        fragments.multiply(part);
      }
      feed.end(write);
      promote(acc, part, scale);
      write = read;
      read = read == last ? shared : read + Gemm::kStageBytes;
    }
    cp_async_wait<0>();
    __syncthreads();
  }
};

template <class TC, int kTileM, int kTileN, int kWarpM, int kWarpN, int kStages>
__global__ void __launch_bounds__(kTileM / kWarpM * (kTileN / kWarpN) * 32)
    gemm_block_scaled_kernel(const __grid_constant__ MatmulArgs args,
                             const __grid_constant__ EpilogueArgs epilogue,
                             const __grid_constant__ TileGrid grid,
                             const __grid_constant__ BlockScaleArgs scales) {
  using Blocks = GemmBlockScaled<TC, kTileM, kTileN, kWarpM, kWarpN, kStages>;
  using Gemm = typename Blocks::Gemm;
  unsigned char* const gemm_shared = dynamic_shared();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp_m = warp % Gemm::kWarpsM * kWarpM;
  const int warp_n = warp / Gemm::kWarpsM * kWarpN;

  float acc[Gemm::kBlocksM][Gemm::kBlocksN * 2][4] = {};
  {
    typename Gemm::Feed feed =
        tile_feed<Gemm, float8_e4m3fn, float8_e4m3fn, kTileM, kTileN, true, true>(args, grid);
    const TilePlace place = tile_place(grid);
    const long long first_m = static_cast<long long>(place.m) * kTileM;
    const long long block_n = static_cast<long long>(place.n) * kTileN / Blocks::kScaleBlock;
    const long long block_k = blockIdx.y * args.k_per_split / Blocks::kScaleBlock;
    const typename Blocks::Scales at{scales.a + first_m * scales.a_m + block_k * scales.a_k,
                                     scales.b + block_n * scales.b_n + block_k * scales.b_k,
                                     feed.rows, warp_m + lane / 4};
    Blocks::sum(args, scales, feed, at, shared_address(gemm_shared), warp_m, warp_n, acc);
  }
  store_tile<Gemm, TC, kTileM, kTileN>(args, epilogue, grid, gemm_shared, warp, warp_m, warp_n,
                                       acc);
}

}  // namespace gpk
