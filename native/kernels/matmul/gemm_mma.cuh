// C = epilogue(A B), batched, by mma.sync: float16, bfloat16, float32 rounded to TF32 (in two
// parts: gemm_split.cuh), int8 (int32 accumulators, no epilogue), FP8 (SM89+). All others
// accumulate in float32, in order of k: 16 (8, 32) at a time. A is K-major (kAKMajor) or M-major, B
// K-major or N-major. Base, pitch and batch strides are multiples of kAlignA (kAlignB) bytes: 16,
// 8, 4 (cp.async) or one element. Grid: x tiles and batches (gemm_grid.cuh), y split-K. A block
// computes kTileM x kTileN, a warp kWarpM x kWarpN of it. Shared memory (dynamic): a ring of
// kStages tiles of A and B (gemm_copy), later 16 rows of accumulators per warp, for wide, coalesced
// stores. Tile shapes: engine_mma.cpp.
#pragma once

#include "matmul/gemm_fragment.cuh"
#include "matmul/gemm_store.cuh"

namespace gpk {

struct tf32x3;  // common/mma_split.cuh

template <class TA, class TB, class TC, int kTileM, int kTileN, int kTileK, int kWarpM, int kWarpN,
          int kStages, bool kAKMajor, bool kBKMajor, int kAlignA, int kAlignB>
struct GemmMma {
  static_assert(sizeof(TA) == sizeof(TB), "operands of one width");
  using Acc = typename MmaAcc<TA>::Type;
  static constexpr int kWarpsM = kTileM / kWarpM;
  static constexpr int kWarpsN = kTileN / kWarpN;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kStepK = 32 / static_cast<int>(sizeof(TA));
  static constexpr int kSteps = kTileK / kStepK;
  static_assert(kSteps >= 2 && kSteps % 2 == 0, "fragments are double buffered");

  template <class T, int kTile, bool kKMajor>
  using Layout = TileLayout<T, kKMajor ? kTile : kTileK, kKMajor ? kTileK : kTile, kKMajor>;
  using LayoutA = Layout<TA, kTileM, kAKMajor>;
  using LayoutB = Layout<TB, kTileN, kBKMajor>;
  using CopyA = TileCopy<TA, LayoutA, kAlignA, kThreads>;
  using CopyB = TileCopy<TB, LayoutB, kAlignB, kThreads>;
  using FragmentsA = Fragments<TA, LayoutA, kWarpM, kAKMajor, true>;
  using FragmentsB = Fragments<TB, LayoutB, kWarpN, kBKMajor, false>;
  static constexpr int kBlocksM = FragmentsA::kBlocks;
  static constexpr int kBlocksN = FragmentsB::kBlocks;

  static constexpr int kStageBytes = LayoutA::kBytes + LayoutB::kBytes;
  static constexpr int kPitchOut = kWarpN + 8;  // of a warp's 16 rows of accumulators
  static constexpr int kBytesOut = 16 * kPitchOut * 4;

  // The fragments of one step, and their MMAs.
  struct Step {
    unsigned a[kBlocksM][4];
    unsigned b[kBlocksN][4];

    __device__ __forceinline__ void load(const FragmentsA& from_a, const FragmentsB& from_b,
                                         unsigned stage, int step) {
      from_a.load(a, stage, step);
      from_b.load(b, stage + LayoutA::kBytes, step);
    }
    __device__ __forceinline__ void round() {
      if constexpr (kIsSame<TA, float>) {
#pragma unroll
        for (int i = 0; i < kBlocksM * 4; ++i) a[i / 4][i % 4] = round_to_tf32(a[i / 4][i % 4]);
#pragma unroll
        for (int j = 0; j < kBlocksN * 4; ++j) b[j / 4][j % 4] = round_to_tf32(b[j / 4][j % 4]);
      }
    }
    template <int kPart>
    __device__ __forceinline__ void multiply_part(Acc (&acc)[kBlocksM][kBlocksN * 2][4]) const {
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
        for (int j = 0; j < kBlocksN * 2; ++j) {
          // Serpentine order: adjacent MMAs share registers.
          const int n = i % 2 == 0 ? j : kBlocksN * 2 - 1 - j;
          Mma<TA, TB>::template run<kPart>(acc[i][n], a[i], b[n / 2][n % 2 * 2],
                                           b[n / 2][n % 2 * 2 + 1]);
        }
    }
    // Tensor cores truncate: a step's sum is added to those before it by rounding float32 units.
    __device__ __forceinline__ void multiply_rounding(Acc (&acc)[kBlocksM][kBlocksN * 2][4]) const {
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
        for (int j = 0; j < kBlocksN * 2; ++j) {
          const unsigned b0 = b[j / 2][j % 2 * 2];
          const unsigned b1 = b[j / 2][j % 2 * 2 + 1];
          Acc sum[4] = {};
          Mma<TA, TB>::template run<0>(sum, a[i], b0, b1);
          Mma<TA, TB>::template run<1>(sum, a[i], b0, b1);
          Mma<TA, TB>::template run<2>(sum, a[i], b0, b1);
#pragma unroll
          for (int e = 0; e < 4; ++e) acc[i][j][e] += sum[e];
        }
    }
    __device__ __forceinline__ void multiply(Acc (&acc)[kBlocksM][kBlocksN * 2][4]) const {
      if constexpr (kIsSame<TA, tf32x3>) {
        multiply_rounding(acc);
      } else {
        multiply_part<0>(acc);
        if constexpr (Mma<TA, TB>::kParts > 1) multiply_part<1>(acc);
      }
    }
  };

  // Loads tile after tile into the ring.
  struct Feed {
    CopyA a;
    CopyB b;
    int rows, cols;  // of A and B that exist, from the tile on
    int k_left;

    __device__ __forceinline__ void begin(const MatmulArgs& args, unsigned stage) {
      if (k_left > 0) {
        if constexpr (kAKMajor) {
          a.begin(stage, rows, k_left, args.a_m, kTileK, args.a);
        } else {
          a.begin(stage, k_left, rows, args.a_k, args.a_k * kTileK, args.a);
        }
        if constexpr (kBKMajor) {
          b.begin(stage + LayoutA::kBytes, cols, k_left, args.b_n, kTileK, args.b);
        } else {
          b.begin(stage + LayoutA::kBytes, k_left, cols, args.b_k, args.b_k * kTileK, args.b);
        }
      }
      cp_async_commit();
    }
    __device__ __forceinline__ void end(unsigned stage) {
      if (k_left > 0) {
        a.end(stage);
        b.end(stage + LayoutA::kBytes);
      }
      k_left -= kTileK;
    }
  };

  static __device__ __forceinline__ void sum(const MatmulArgs& args, Feed& feed, unsigned shared,
                                             int warp_m, int warp_n,
                                             Acc (&acc)[kBlocksM][kBlocksN * 2][4]) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const FragmentsA from_a(warp_m, lane);
    const FragmentsB from_b(warp_n, lane);
    const int num_tiles = (feed.k_left + kTileK - 1) / kTileK;
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      feed.begin(args, shared + s * kStageBytes);
      feed.end(shared + s * kStageBytes);
    }
    cp_async_wait<kStages - 2>();
    __syncthreads();
    Step fragments[2];
    unsigned read = shared;
    unsigned write = shared + (kStages - 1) * kStageBytes;
    const unsigned last = write;
    if (num_tiles > 0) {
      fragments[0].load(from_a, from_b, read, 0);
      fragments[0].round();
    }
    for (int tile = 0; tile < num_tiles; ++tile) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step == kSteps - 1) {
          feed.end(write);
          cp_async_wait<kStages - 2>();
          __syncthreads();
          write = read;
          read = read == last ? shared : read + kStageBytes;
        }
        fragments[(step + 1) % 2].load(from_a, from_b, read, (step + 1) % kSteps);
        if (step == 0) feed.begin(args, write);
        fragments[step % 2].multiply(acc);
        fragments[(step + 1) % 2].round();
      }
    }
    cp_async_wait<0>();
    __syncthreads();
  }

  // Writes block `i` of the warp's accumulators to `out`; row r of it is the warp's row
  // FragmentsA::row(i, r).
  static __device__ __forceinline__ void put_down(Acc* out, const Acc (&acc)[kBlocksN * 2][4]) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      Acc* const row = out + (h * 8 + g) * kPitchOut;
#pragma unroll
      for (int j = 0; j < kBlocksN * 2; ++j) {
        if constexpr (FragmentsB::kInOrder) {
          store_vec<Acc, 2>(row + j * 8 + t * 2, {acc[j][2 * h], acc[j][2 * h + 1]});
        } else {
          row[FragmentsB::row(j / 2, j % 2, t * 2)] = acc[j][2 * h];
          row[FragmentsB::row(j / 2, j % 2, t * 2 + 1)] = acc[j][2 * h + 1];
        }
      }
    }
  }

  template <class T, bool kFinal>
  static __device__ __forceinline__ void store(
      const WarpStore<T, Acc, kWarpN, FragmentsA, kFinal>& to, Acc* out,
      const Acc (&acc)[kBlocksM][kBlocksN * 2][4]) {
#pragma unroll 1  // one copy of the epilogue's code: halves compile time
    for (int block = 0; block < kBlocksM; ++block) {
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i)
        if (i == block) put_down(out, acc[i]);
      __syncwarp();
      to.run(out, block);
      __syncwarp();
    }
  }
};

// The block's accumulators to C through the epilogue, or as they are to the partial sums.
template <class Gemm, class TC, int kTileM, int kTileN, class Accumulators>
__device__ __forceinline__ void store_tile(const MatmulArgs& args, const EpilogueArgs& epilogue,
                                           const TileGrid& grid, unsigned char* shared, int warp,
                                           int warp_m, int warp_n, const Accumulators& acc) {
  using Acc = typename Gemm::Acc;
  Acc* const out = reinterpret_cast<Acc*>(shared + warp * Gemm::kBytesOut);
  const TilePlace place = tile_place(grid);
  const long long first_m = static_cast<long long>(place.m) * kTileM;
  const long long first_n = static_cast<long long>(place.n) * kTileN;
  if (args.partial == nullptr) {
    const TileTarget<TC> target = result_target<TC>(
        args, first_m, first_n, batch_offsets(args, place.batch).c, kTileM, kTileN);
    Gemm::template store<TC, true>(
        {target, epilogue, grid, grid.flags, first_m, first_n, place.batch, warp_m, warp_n}, out,
        acc);
  } else {
    const TileTarget<Acc> target =
        partial_target<Acc>(args, first_m, first_n, place.batch, kTileM, kTileN);
    Gemm::template store<Acc, false>(
        {target, epilogue, grid, 0, first_m, first_n, place.batch, warp_m, warp_n}, out, acc);
  }
}

template <class TA, class TB, class TC, int kTileM, int kTileN, int kTileK, int kWarpM, int kWarpN,
          int kStages, bool kAKMajor, bool kBKMajor, int kAlignA, int kAlignB>
__device__ __forceinline__ void gemm_mma_tile(const MatmulArgs& args, const EpilogueArgs& epilogue,
                                              const TileGrid& grid) {
  using Gemm = GemmMma<TA, TB, TC, kTileM, kTileN, kTileK, kWarpM, kWarpN, kStages, kAKMajor,
                       kBKMajor, kAlignA, kAlignB>;
  using Acc = typename Gemm::Acc;
  unsigned char* const gemm_shared = dynamic_shared();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_m = warp % Gemm::kWarpsM * kWarpM;
  const int warp_n = warp / Gemm::kWarpsM * kWarpN;

  Acc acc[Gemm::kBlocksM][Gemm::kBlocksN * 2][4] = {};
  {
    typename Gemm::Feed feed =
        tile_feed<Gemm, TA, TB, kTileM, kTileN, kAKMajor, kBKMajor>(args, grid);
    Gemm::sum(args, feed, shared_address(gemm_shared), warp_m, warp_n, acc);
  }
  store_tile<Gemm, TC, kTileM, kTileN>(args, epilogue, grid, gemm_shared, warp, warp_m, warp_n,
                                       acc);
}

template <class TA, class TB, class TC, int kTileM, int kTileN, int kTileK, int kWarpM, int kWarpN,
          int kStages, bool kAKMajor, bool kBKMajor, int kAlignA, int kAlignB>
__global__ void __launch_bounds__(kTileM / kWarpM * (kTileN / kWarpN) * 32)
    gemm_mma_kernel(const __grid_constant__ MatmulArgs args,
                    const __grid_constant__ EpilogueArgs epilogue,
                    const __grid_constant__ TileGrid grid) {
  gemm_mma_tile<TA, TB, TC, kTileM, kTileN, kTileK, kWarpM, kWarpN, kStages, kAKMajor, kBKMajor,
                kAlignA, kAlignB>(args, epilogue, grid);
}

}  // namespace gpk
