// C[i, :] = A[i, :] B[g], g the group of row i, on SM90a: gemm_wgmma.cuh with the tiles of
// group_tiles.cuh. A [m, k] is K-major, B [groups, k, n] K-major or N-major, C [m, n] row-major;
// all read and written by TMA, B by one map with a coordinate for the group. A tile at the end of a
// group reads rows of the next one, which change nothing in its own; it is stored row by row, since
// a TMA store cannot end at a group. Rows of no group are zero. Persistent blocks.
// Dynamic shared memory: GroupedWgmma::kSharedBytes, then groups + 1 entries of the table.
#pragma once

#include "common/vec.cuh"
#include "matmul/gemm_wgmma.cuh"
#include "matmul/group_tiles.cuh"

namespace gpk {

template <class T, int kTileM, int kTileN, int kReps, int kStages, int kTransB>
struct GroupedWgmma : GemmWgmma<T, T, T, kTileM, kTileN, kReps, kStages, 1, false, 0, kTransB,
                                kStoreRows, 0, false> {
  using Gemm = GemmWgmma<T, T, T, kTileM, kTileN, kReps, kStages, 1, false, 0, kTransB, kStoreRows,
                         0, false>;
  using Out = typename Gemm::WayOut;
  using Tiles = GroupTiles<kTileM, kTileN>;
  static constexpr int kVec = 16 / static_cast<int>(sizeof(T));

  // Rows [row0, end) of the 64 x kChunk elements in a buffer.
  static __device__ __forceinline__ void store_rows(const GroupedWgmmaArgs& args, unsigned buffer,
                                                    int row0, int end, int col0, int thread) {
    constexpr int kPerRow = Out::kPitch / 16;
    for (int i = thread; i < 64 * kPerRow; i += 128) {
      const int row = i / kPerRow;
      const int col = col0 + i % kPerRow * kVec;
      if (row0 + row >= end || col >= args.n) continue;
      unsigned bits[4];
      load_shared_quad(buffer + Out::swizzled(row, i % kPerRow), bits);
      T* const to = static_cast<T*>(args.c) + (row0 + row) * args.c_m + col;
      if (col + kVec <= args.n) {
        *reinterpret_cast<Vec<unsigned, 4>*>(to) = {bits[0], bits[1], bits[2], bits[3]};
      } else {
#pragma unroll
        for (int e = 0; e < kVec; ++e)
          if (col + e < args.n) to[e] = reinterpret_cast<const T*>(bits)[e];
      }
    }
  }

  // WgmmaEpilogue::run for rows up to `end`.
  static __device__ __forceinline__ void store(typename Gemm::Acc (&acc)[kReps][kTileN / 2],
                                               const TensorMap& map, const GroupedWgmmaArgs& args,
                                               int first_row, int end, int first_col,
                                               unsigned buffers, int barrier) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
#pragma unroll
    for (int r = 0; r < kReps; ++r) {
      const int row0 = first_row + r * 64;
      if (row0 >= end) break;
      const bool whole = row0 + 64 <= end;
#pragma unroll
      for (int i = 0; i < kTileN / Out::kChunk; ++i) {
        const unsigned buffer = buffers + ((r * (kTileN / Out::kChunk) + i) & 1) * Out::kChunkBytes;
        if (thread == 0)  // as there; stores by rows commit nothing that could be waited for
          whole && (r != 0 || i != 0) ? wait_stores_read<1>() : wait_stores_read<0>();
        named_sync(barrier, 128);
        Out::stage(acc[r], i * Out::kChunk, buffer, thread >> 5, thread & 31);
        if (whole) {
          shared_to_copies_fence();
          named_sync(barrier, 128);
          if (thread == 0) {
            store_box(map, buffer, first_col + i * Out::kChunk, row0, 0);
            commit_stores();
          }
        } else {
          named_sync(barrier, 128);
          store_rows(args, buffer, row0, end, first_col + i * Out::kChunk, thread);
        }
      }
    }
  }
};

template <class T, int kTileM, int kTileN, int kReps, int kStages, int kTransB>
__global__ void __launch_bounds__(128 * (kTileM / 64 / kReps + 1), 1)
    grouped_wgmma_kernel(const __grid_constant__ TensorMap map_a,
                         const __grid_constant__ TensorMap map_b,
                         const __grid_constant__ TensorMap map_c,
                         const __grid_constant__ GroupedWgmmaArgs args) {
  using Grouped = GroupedWgmma<T, kTileM, kTileN, kReps, kStages, kTransB>;
  using Tiles = typename Grouped::Tiles;
  extern __shared__ unsigned char raw_shared[];
  const unsigned offset =
      ((shared_address(raw_shared) + 1023) & ~1023u) - shared_address(raw_shared);
  const unsigned stages = shared_address(raw_shared) + offset;
  const unsigned buffers = stages + kStages * Grouped::kStageBytes;
  const unsigned full = buffers + Grouped::kConsumers * Grouped::kBufferBytes;
  const unsigned empty = full + 8 * kStages;
  GroupEnds* const table =
      reinterpret_cast<GroupEnds*>(raw_shared + (offset + empty + 8 * kStages - stages));
  const int warpgroup = static_cast<int>(threadIdx.x) >> 7;

  if (threadIdx.x == 0) {
    prefetch_map(map_a);
    prefetch_map(map_b);
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, Grouped::kConsumers);
    }
    barrier_init_fence();
  }
  wait_for_predecessor();
  Tiles::fill(table, args.tiles);
  const int num_units = Tiles::num_units(table, args.tiles);
  const int unit_step = static_cast<int>(gridDim.x);

  int stage = 0;
  unsigned phase = 0;
  if (warpgroup == 0) {
    if constexpr (Grouped::kConsumers > 1) register_dealloc<Grouped::kConsumers == 2 ? 40 : 32>();
    if (threadIdx.x != 0) return;
    for (int unit = static_cast<int>(blockIdx.x); unit < num_units; unit += unit_step) {
      const GroupTile at = Tiles::at(table, args.tiles, unit);
      const typename Grouped::Gemm::Tile tile{at.m, at.n, at.group, 0};
      const int steps = at.group < args.tiles.groups ? args.k_steps : 0;
      for (int step = 0; step < steps; ++step) {
        const unsigned to = stages + stage * Grouped::kStageBytes;
        barrier_wait(empty + 8 * stage, phase ^ 1);
        barrier_expect(full + 8 * stage, Grouped::kStageBytes);
        Grouped::load_a(to, map_a, full + 8 * stage, step * Grouped::kTileK, tile, 0);
        Grouped::load_b(to + Grouped::kBytesA, map_b, full + 8 * stage, step * Grouped::kTileK,
                        tile, at.group, 0);
        if (++stage == kStages) {
          stage = 0;
          phase ^= 1;
        }
      }
    }
    release_successor();
  } else {
    if constexpr (Grouped::kConsumers > 1) register_alloc<Grouped::kConsumers == 2 ? 232 : 160>();
    const int consumer = warpgroup - 1;
    const bool releases = (threadIdx.x & 127) == 0;
    for (int unit = static_cast<int>(blockIdx.x); unit < num_units; unit += unit_step) {
      const GroupTile at = Tiles::at(table, args.tiles, unit);
      const int steps = at.group < args.tiles.groups ? args.k_steps : 0;
      typename Grouped::Acc acc[kReps][kTileN / 2];
      if (steps == 0) Grouped::clear(acc);
      unsigned previous = 0;
      for (int step = 0; step < steps; ++step) {
        const unsigned from = stages + stage * Grouped::kStageBytes;
        barrier_wait(full + 8 * stage, phase);
#pragma unroll
        for (int r = 0; r < kReps; ++r) wgmma_touch(acc[r]);
        wgmma_fence();
        Grouped::multiply(acc, from + consumer * kReps * 64 * 128, from + Grouped::kBytesA,
                          step != 0);
        wgmma_commit();
        if (step != 0) {
          wgmma_wait<1>();
          if (releases) barrier_arrive(previous);
        }
        previous = empty + 8 * stage;
        if (++stage == kStages) {
          stage = 0;
          phase ^= 1;
        }
      }
      wgmma_wait<0>();
#pragma unroll
      for (int r = 0; r < kReps; ++r) wgmma_touch(acc[r]);
      if (releases && steps > 0) barrier_arrive(previous);
      Grouped::store(acc, map_c, args, at.m + consumer * kReps * 64, at.end, at.n,
                     buffers + consumer * Grouped::kBufferBytes, 1 + consumer);
    }
    if ((threadIdx.x & 127) == 0) wait_stores<0>();
  }
}

}  // namespace gpk
