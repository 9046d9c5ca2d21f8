// C[i, :] = A[i, :] B[g], g the group of row i, by mma.sync: the tiles of group_tiles.cuh with the
// main loop of gemm_mma.cuh. A [m, k] is K-major, B [groups, k, n] K-major or N-major, bases and
// pitches aligned to 16 bytes; C has any strides. Rows of no group are zero. Persistent blocks, as
// many as fit; each tile's result depends on its own rows and B only. Dynamic shared memory: the
// ring of gemm_mma.cuh, then groups + 1 entries of the table.
#pragma once

#include "matmul/gemm_mma.cuh"
#include "matmul/group_tiles.cuh"

namespace gpk {

template <class T, int kTileM, int kTileN, int kTileK, int kWarpM, int kWarpN, int kStages,
          bool kBKMajor>
__global__ void __launch_bounds__(kTileM / kWarpM * (kTileN / kWarpN) * 32)
    grouped_mma_kernel(const __grid_constant__ MatmulArgs args,
                       const __grid_constant__ GroupTilesArgs groups, long long b_step) {
  using Gemm =
      GemmMma<T, T, T, kTileM, kTileN, kTileK, kWarpM, kWarpN, kStages, true, kBKMajor, 16, 16>;
  using Tiles = GroupTiles<kTileM, kTileN>;
  using Acc = typename Gemm::Acc;
  unsigned char* const gemm_shared = dynamic_shared();
  GroupEnds* const table = reinterpret_cast<GroupEnds*>(gemm_shared + kStages * Gemm::kStageBytes);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_m = warp % Gemm::kWarpsM * kWarpM;
  const int warp_n = warp / Gemm::kWarpsM * kWarpN;
  Tiles::fill(table, groups);
#pragma unroll 1
  for (int unit = static_cast<int>(blockIdx.x); unit < Tiles::num_units(table, groups);
       unit += static_cast<int>(gridDim.x)) {
    Acc acc[Gemm::kBlocksM][Gemm::kBlocksN * 2][4] = {};
    {
      const GroupTile at = Tiles::at(table, groups, unit);
      const bool any = at.group < groups.groups;
      const T* const b =
          static_cast<const T*>(args.b) + (any ? at.group : 0) * b_step + at.n * args.b_n;
      typename Gemm::Feed feed{
          typename Gemm::CopyA(static_cast<const T*>(args.a) + at.m * args.a_m, args.a_m),
          typename Gemm::CopyB(b, kBKMajor ? args.b_n : args.b_k), min(at.end - at.m, kTileM),
          static_cast<int>(min(args.n - at.n, static_cast<long long>(kTileN))),
          any ? static_cast<int>(args.k) : 0};
      Gemm::sum(args, feed, shared_address(gemm_shared), warp_m, warp_n, acc);
    }
    // Found again instead of being kept in registers.
    const GroupTile at = Tiles::at(table, groups, unit);
    TileTarget<T> target;
    target.row_step = args.c_m;
    target.col_step = args.c_n;
    target.first = static_cast<T*>(args.c) + at.m * args.c_m + at.n * args.c_n;
    target.bound(at.end - at.m, args.n - at.n, kTileM, kTileN);
    Acc* const out = reinterpret_cast<Acc*>(gemm_shared + warp * Gemm::kBytesOut);
    // No epilogue: accumulators are rounded and stored.
    const EpilogueArgs none{};
    const TileGrid grid{};
    Gemm::template store<T, false>({target, none, grid, 0, at.m, at.n, 0, warp_m, warp_n}, out,
                                   acc);
    __syncthreads();  // the next tile overwrites `out`
  }
}

}  // namespace gpk
