// C = epilogue(x w^T) for 2:4 sparse w, float16 or bfloat16, by mma.sp (SM80+). w is the 16-row
// operand, so a warp computes kWarpN x kWarpM of C^T and turns it on the way to shared memory:
// stores are those of gemm_mma.cuh. Tiles of 64 of k: x [kTileM, 64], the stored values of w
// [kTileN, 32] and their metadata [kTileN / 16][32 words] come by cp.async into a ring of kStages.
// x and w K-major, rows on 16 bytes; layout of the metadata: kernels/quantize/sparse.cuh. A warp
// multiplies 32 of k at a time, in order, whatever the tile: rows do not depend on m.
#pragma once

#include "common/mma_sparse.cuh"
#include "matmul/gemm_mma.cuh"

namespace gpk {

template <class T, int kTileM, int kTileN, int kWarpM, int kWarpN, int kStages>
struct GemmSparse {
  using Acc = float;
  static constexpr int kTileK = 64;
  static constexpr int kWarpsM = kTileM / kWarpM;
  static constexpr int kWarpsN = kTileN / kWarpN;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kSteps = 2;  // of 32 of k
  using LayoutX = TileLayout<T, kTileM, kTileK, true>;
  using LayoutW = TileLayout<T, kTileN, kTileK / 2, true>;
  using CopyX = TileCopy<T, LayoutX, 16, kThreads>;
  using CopyW = TileCopy<T, LayoutW, 16, kThreads>;
  using FragmentsX = Fragments<T, LayoutX, kWarpM, true, false>;
  using FragmentsW = Fragments<T, LayoutW, kWarpN, true, true>;
  static constexpr int kBlocksX = FragmentsX::kBlocks;
  static constexpr int kBlocksW = FragmentsW::kBlocks;
  using Accumulators = float[kBlocksW][kBlocksX * 2][4];

  static constexpr int kMetadataBytes = kTileN / 16 * 128;
  static constexpr int kMetadataAt = LayoutX::kBytes + LayoutW::kBytes;
  static constexpr int kStageBytes = kMetadataAt + kMetadataBytes;
  static_assert(kMetadataBytes / 16 <= kThreads, "a copy of metadata per thread, or none");
  static constexpr int kPitchOut = kWarpN + 8;  // of a warp's 16 rows of C
  static constexpr int kBytesOut = 16 * kPitchOut * 4;

  // The fragments of one step, and their MMAs.
  struct Step {
    unsigned w[kBlocksW][4];
    unsigned x[2][kBlocksX][4];
    unsigned metadata[kBlocksW];

    // `first`: the warp's first word of metadata in a stage, plus the lane's.
    __device__ __forceinline__ void load(const FragmentsX& from_x, const FragmentsW& from_w,
                                         unsigned first, unsigned stage, int step) {
      from_w.load(w, stage + LayoutX::kBytes, step);
      from_x.load(x[0], stage, 2 * step);
      from_x.load(x[1], stage, 2 * step + 1);
#pragma unroll
      for (int i = 0; i < kBlocksW; ++i)
        load_shared(metadata[i], stage + first + static_cast<unsigned>(i * 128));
    }

    template <int kStep>
    __device__ __forceinline__ void multiply(Accumulators& acc) const {
#pragma unroll
      for (int i = 0; i < kBlocksW; ++i)
#pragma unroll
        for (int j = 0; j < kBlocksX * 2; ++j)
          SparseMma<T>::template run<kStep>(acc[i][j], w[i], x[0][j / 2][j % 2 * 2],
                                            x[0][j / 2][j % 2 * 2 + 1], x[1][j / 2][j % 2 * 2],
                                            x[1][j / 2][j % 2 * 2 + 1], metadata[i]);
    }
  };

  // Loads tile after tile into the ring.
  struct Feed {
    CopyX x;
    CopyW w;
    const unsigned char* metadata;  // the thread's 16 bytes of the next tile
    int rows, cols;                 // of x and w that exist, from the tile on
    int k_left;

    __device__ __forceinline__ void load(const MatmulArgs& args, const SparseTileArgs& sparse,
                                         unsigned stage) {
      if (k_left > 0) {
        x.begin(stage, rows, k_left, args.a_m, kTileK, args.a);
        w.begin(stage + LayoutX::kBytes, cols, (k_left + 3) / 4 * 2, sparse.pitch, kTileK / 2,
                sparse.values);
        if (threadIdx.x < kMetadataBytes / 16)
          cp_async<16>(stage + kMetadataAt + threadIdx.x * 16, metadata);
        metadata += 128;
      }
      cp_async_commit();
      k_left -= kTileK;
    }
  };

  // Rows past the last block have the metadata of that block: any that is valid.
  static __device__ __forceinline__ Feed feed(const MatmulArgs& args, const SparseTileArgs& sparse,
                                              long long first_m, long long first_n,
                                              long long first_k) {
    const long long block =
        min(first_n / 16 + static_cast<long long>(threadIdx.x / 8), sparse.row_blocks - 1);
    return {CopyX(static_cast<const T*>(args.a) + first_m * args.a_m + first_k, args.a_m),
            CopyW(static_cast<const T*>(sparse.values) + first_n * sparse.pitch + first_k / 2,
                  sparse.pitch),
            reinterpret_cast<const unsigned char*>(sparse.metadata) +
                (block * sparse.k_blocks + first_k / kTileK) * 128 + threadIdx.x % 8 * 16,
            static_cast<int>(min(args.m - first_m, static_cast<long long>(kTileM))),
            static_cast<int>(min(args.n - first_n, static_cast<long long>(kTileN))),
            static_cast<int>(min(args.k - first_k, args.k_per_split))};
  }

  static __device__ __forceinline__ void sum(const MatmulArgs& args, const SparseTileArgs& sparse,
                                             Feed& feed, unsigned shared, int warp_m, int warp_n,
                                             Accumulators& acc) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const FragmentsX from_x(warp_m, lane);
    const FragmentsW from_w(warp_n, lane);
    const unsigned metadata = static_cast<unsigned>(kMetadataAt + warp_n * 8 + lane * 4);
    const int num_tiles = (feed.k_left + kTileK - 1) / kTileK;
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) feed.load(args, sparse, shared + s * kStageBytes);
    cp_async_wait<kStages - 2>();
    __syncthreads();
    Step fragments[2];
    unsigned read = shared;
    unsigned write = shared + (kStages - 1) * kStageBytes;
    const unsigned last = write;
    if (num_tiles > 0) fragments[0].load(from_x, from_w, metadata, read, 0);
    for (int tile = 0; tile < num_tiles; ++tile) {
      fragments[1].load(from_x, from_w, metadata, read, 1);
      feed.load(args, sparse, write);
      fragments[0].template multiply<0>(acc);
      cp_async_wait<kStages - 2>();
      __syncthreads();
      write = read;
      read = read == last ? shared : read + kStageBytes;
      fragments[0].load(from_x, from_w, metadata, read, 0);
      fragments[1].template multiply<1>(acc);
    }
    cp_async_wait<0>();
    __syncthreads();
  }

  // Rows 16 `block` on of the warp's x: [16, kWarpN] of C.
  static __device__ __forceinline__ void put_down(float* out, const Accumulators& acc, int block) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    float* const to = out + lane % 4 * 2 * kPitchOut + lane / 4;
#pragma unroll
    for (int i = 0; i < kBlocksW; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          to[(j * 8 + e % 2) * kPitchOut + i * 16 + e / 2 * 8] = acc[i][2 * block + j][e];
  }

  template <class TC, bool kFinal>
  static __device__ __forceinline__ void store(
      const WarpStore<TC, float, kWarpN, FragmentsX, kFinal>& to, float* out,
      const Accumulators& acc) {
#pragma unroll 1  // one copy of the epilogue's code: halves compile time
    for (int block = 0; block < kBlocksX; ++block) {
#pragma unroll
      for (int i = 0; i < kBlocksX; ++i)
        if (i == block) put_down(out, acc, i);
      __syncwarp();
      to.run(out, block);
      __syncwarp();
    }
  }
};

// SM120 would spill for one block more per multiprocessor.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define GPK_SPARSE_BOUNDS(threads) __launch_bounds__(threads, 1)
#else
#define GPK_SPARSE_BOUNDS(threads) __launch_bounds__(threads)
#endif

template <class T, int kTileM, int kTileN, int kWarpM, int kWarpN, int kStages>
__global__ void GPK_SPARSE_BOUNDS(kTileM / kWarpM * (kTileN / kWarpN) * 32)
    gemm_sparse_kernel(const __grid_constant__ MatmulArgs args,
                       const __grid_constant__ EpilogueArgs epilogue,
                       const __grid_constant__ TileGrid grid,
                       const __grid_constant__ SparseTileArgs sparse) {
  using Gemm = GemmSparse<T, kTileM, kTileN, kWarpM, kWarpN, kStages>;
  unsigned char* const memory = dynamic_shared();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_m = warp % Gemm::kWarpsM * kWarpM;
  const int warp_n = warp / Gemm::kWarpsM * kWarpN;
  typename Gemm::Accumulators acc = {};
  {
    const TilePlace place = tile_place(grid);
    typename Gemm::Feed feed =
        Gemm::feed(args, sparse, static_cast<long long>(place.m) * kTileM,
                   static_cast<long long>(place.n) * kTileN, blockIdx.y * args.k_per_split);
    Gemm::sum(args, sparse, feed, shared_address(memory), warp_m, warp_n, acc);
  }
  store_tile<Gemm, T, kTileM, kTileN>(args, epilogue, grid, memory, warp, warp_m, warp_n, acc);
}

#undef GPK_SPARSE_BOUNDS

}  // namespace gpk
