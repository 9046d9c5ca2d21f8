// C = A B on SM90a with wgmma and TMA; A is K-major or M-major, B K-major or N-major.
// A block is one producer warpgroup and kTileM / 64 / kReps consumers. One thread of the producer
// keeps kStages tiles of A and B (128 bytes of k each, 128-byte swizzle) in flight; a consumer
// multiplies 64 * kReps rows. Blocks are persistent: they process tile after tile, rasterised in
// groups of `group` rows of tiles, so that concurrent tiles share A and B in the L2. A cluster
// either computes vertically adjacent tiles and multicasts B (kSplit false), or one tile by
// split-K, reduced in order of k through distributed shared memory, each block some columns (kSplit
// true). Dynamic shared memory: GemmWgmma::kSharedBytes. Shapes and pipeline as in public Hopper
// kernels.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/dtype.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"
#include "matmul/wgmma_store.cuh"

namespace gpk {

template <class A, class B, class Out, int kTileM, int kTileN, int kReps, int kStages, int kCluster,
          bool kSplit, int kTransA, int kTransB, int kStore, unsigned kEpilogue, bool kFast>
struct GemmWgmma {
  using Acc = typename WgmmaAcc<A>::type;
  static constexpr int kConsumers = kTileM / 64 / kReps;
  static constexpr int kShare = kSplit ? 1 : kCluster;  // blocks that fetch B together
  static constexpr int kWidth = kSplit ? kTileN / kCluster : kTileN;  // columns a block stores
  using WayOut = WgmmaEpilogue<Acc, Out, kReps, kWidth, kStore, kEpilogue>;
  static constexpr int kTileK = 128 / static_cast<int>(sizeof(A));
  static constexpr int kBytesA = kTileM * 128;
  static constexpr int kStageBytes = kBytesA + kTileN * 128;
  static constexpr int kBufferBytes = (2 * WayOut::kChunkBytes + 1023) / 1024 * 1024;
  // Accumulators to reduce take the place of the stages, all of which have been multiplied.
  static constexpr int kSumBytes = kSplit ? kTileM * kTileN * 4 : 0;
  static constexpr int kRingBytes =
      kStages * kStageBytes > kSumBytes ? kStages* kStageBytes : kSumBytes;
  static constexpr int kBarrierBytes = 16 * kStages;
  static constexpr int kSharedBytes = 1024 + kRingBytes + kConsumers * kBufferBytes + kBarrierBytes;
  // Tensor cores accumulate 8-bit products with less precision than float32: after kPromoteSteps
  // accumulators are added to float32 ones. kFast: never.
  static constexpr bool kPromote = sizeof(A) == 1 && kIsSame<Acc, float> && !kFast;
  static constexpr int kPromoteSteps = 4;
  static_assert(kTransB == 0 || kTileN % 64 == 0);
  static_assert(kWidth % 8 == 0);

  struct Tile {
    int m, n, batch, split;
  };

  static __device__ __forceinline__ Tile tile_at(const GemmWgmmaArgs& args, int unit, int rank) {
    const int per_batch = args.tiles_m * args.tiles_n;
    const int outer = unit / per_batch;
    int rest = unit - outer * per_batch;
    const int per_group = args.group * args.tiles_n;
    const int first = rest / per_group * args.group;
    const int rows = min(args.group, args.tiles_m - first);
    rest -= first * args.tiles_n;
    const int column = rest / rows;
    return {((first + rest - column * rows) * kShare + rank) * kTileM, column * kTileN,
            outer % args.batches, outer / args.batches};
  }

  // --- Producer ----------------------------------------------------------------------------------

  static __device__ __forceinline__ void load_a(unsigned to, const TensorMap& map, unsigned full,
                                                int k, const Tile& tile, int batch) {
    if constexpr (kTransA == 0) {
      load_box(to, map, full, k, tile.m, batch);
    } else {
#pragma unroll
      for (int panel = 0; panel < kTileM / 64; ++panel)
        load_box(to + panel * kTileK * 128, map, full, tile.m + panel * 64, k, batch);
    }
  }

  static __device__ __forceinline__ void load_b(unsigned to, const TensorMap& map, unsigned full,
                                                int k, const Tile& tile, int batch, int rank) {
    constexpr unsigned short kAll = (1 << kShare) - 1;
    constexpr int kRows = (kTransB == 0 ? kTileN : kTileK) / kShare;  // fetched by this block
    if constexpr (kTransB == 0) {
      if constexpr (kShare == 1) {
        load_box(to, map, full, k, tile.n, batch);
      } else {
        load_box_multicast(to + rank * kRows * 128, map, full, k, tile.n + rank * kRows, batch,
                           kAll);
      }
    } else {
#pragma unroll
      for (int panel = 0; panel < kTileN / 64; ++panel) {
        const unsigned at = to + (panel * kTileK + rank * kRows) * 128;
        if constexpr (kShare == 1) {
          load_box(at, map, full, tile.n + panel * 64, k, batch);
        } else {
          load_box_multicast(at, map, full, tile.n + panel * 64, k + rank * kRows, batch, kAll);
        }
      }
    }
  }

  // --- Consumer ----------------------------------------------------------------------------------

  static __device__ __forceinline__ void multiply(Acc (&acc)[kReps][kTileN / 2], unsigned a,
                                                  unsigned b, int add) {
    const unsigned long long a_first = operand(a, kTileK * 128);
    const unsigned long long b_first = operand(b, kTileK * 128);
    constexpr int kStepA = kTransA == 0 ? 2 : 128;  // in 16 bytes
    constexpr int kStepB = kTransB == 0 ? 2 : 128;
    constexpr int kRepA = 64 * 128 / 16;  // 64 rows, or one panel
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int r = 0; r < kReps; ++r)
        Wgmma<kTileN, A, B, kTransA, kTransB>::run(acc[r], a_first + r * kRepA + step * kStepA,
                                                   b_first + step * kStepB, step == 0 ? add : 1);
  }

  template <int kCount>
  static __device__ __forceinline__ void clear(Acc (&sums)[kCount][kTileN / 2]) {
#pragma unroll
    for (int r = 0; r < kCount; ++r)
#pragma unroll
      for (int i = 0; i < kTileN / 2; ++i) sums[r][i] = 0;
  }

  static __device__ __forceinline__ void promote(Acc (&acc)[kReps][kTileN / 2],
                                                 Acc (&sums)[kReps][kTileN / 2]) {
#pragma unroll
    for (int r = 0; r < kReps; ++r) {
      wgmma_touch(acc[r]);
#pragma unroll
      for (int i = 0; i < kTileN / 2; ++i) sums[r][i] += acc[r][i];
    }
  }

  template <bool kSecond, class First, class Second>
  static __device__ __forceinline__ auto& chosen(First& first, Second& second) {
    if constexpr (kSecond) {
      return second;
    } else {
      return first;
    }
  }

  // Split-K within the cluster: sums the blocks' accumulators for the columns of this block. Two
  // cluster barriers: when all are written, and (arrive only) when this block has read them, so
  // call cluster_wait() before writing the next ones. The producer waits for both before it loads
  // the next tile where these were.
  static __device__ __forceinline__ void reduce_cluster(const Acc (&acc)[kReps][kTileN / 2],
                                                        Acc (&sum)[kReps][kWidth / 2],
                                                        unsigned parts, int consumer, int rank) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    const unsigned own = parts + (consumer * 128 + thread) * 16;
    constexpr int kGroupBytes = kConsumers * 128 * 16;  // eight columns of all rows of one rep
    named_sync(1 + kConsumers, kConsumers * 128);       // others may still read the stages
#pragma unroll
    for (int r = 0; r < kReps; ++r)
#pragma unroll
      for (int g = 0; g < kTileN / 8; ++g)
        store_shared_quad(own + (r * (kTileN / 8) + g) * kGroupBytes, &acc[r][g * 4]);
    __syncwarp();
    cluster_sync();
#pragma unroll
    for (int r = 0; r < kReps; ++r)
#pragma unroll
      for (int g = 0; g < kWidth / 8; ++g) {
        const unsigned at = own + (r * (kTileN / 8) + rank * (kWidth / 8) + g) * kGroupBytes;
        Acc part[kCluster][4];
#pragma unroll
        for (int c = 0; c < kCluster; ++c) load_shared_quad_of(at, c, part[c]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sum[r][g * 4 + i] = part[0][i];
#pragma unroll
          for (int c = 1; c < kCluster; ++c) sum[r][g * 4 + i] += part[c][i];
        }
      }
    shared_to_copies_fence();
    __syncwarp();
    cluster_arrive();
  }
};

template <class A, class B, class Out, int kTileM, int kTileN, int kReps, int kStages, int kCluster,
          bool kSplit, int kTransA, int kTransB, int kStore, unsigned kEpilogue, bool kFast>
__global__ void __cluster_dims__(kCluster, 1, 1)
    __launch_bounds__(128 * (kTileM / 64 / kReps + 1), 1)
        gemm_wgmma_kernel(const __grid_constant__ TensorMap map_a,
                          const __grid_constant__ TensorMap map_b,
                          const __grid_constant__ TensorMap map_c, const GemmWgmmaArgs args,
                          const EpilogueArgs epilogue) {
  using Gemm = GemmWgmma<A, B, Out, kTileM, kTileN, kReps, kStages, kCluster, kSplit, kTransA,
                         kTransB, kStore, kEpilogue, kFast>;
  extern __shared__ unsigned char raw_shared[];
  const unsigned stages = (shared_address(raw_shared) + 1023) & ~1023u;
  const unsigned buffers = stages + Gemm::kRingBytes;
  const unsigned full = buffers + Gemm::kConsumers * Gemm::kBufferBytes;  // of eight bytes each
  const unsigned empty = full + 8 * kStages;
  const int warpgroup = static_cast<int>(threadIdx.x) >> 7;
  const int rank = kCluster == 1 ? 0 : static_cast<int>(cluster_rank());
  const int tile_rank = kSplit ? 0 : rank;
  const int num_units = args.batches * args.splits * args.tiles_m * args.tiles_n;
  const int unit_step = static_cast<int>(gridDim.x) / kCluster;

  if (threadIdx.x == 0) {
    prefetch_map(map_a);
    prefetch_map(map_b);
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, Gemm::kConsumers * Gemm::kShare);
    }
    barrier_init_fence();
  }
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
    cluster_sync();
  }
  wait_for_predecessor();

  int stage = 0;
  unsigned phase = 0;
  if (warpgroup == 0) {
    if constexpr (Gemm::kConsumers > 1) register_dealloc<Gemm::kConsumers == 2 ? 40 : 32>();
    for (int unit = static_cast<int>(blockIdx.x) / kCluster; unit < num_units; unit += unit_step) {
      if (threadIdx.x == 0) {
        const typename Gemm::Tile tile = Gemm::tile_at(args, unit, tile_rank);
        const int first = (kSplit ? rank : tile.split) * args.k_steps_per_split;
        const int last = min(first + args.k_steps_per_split, args.k_steps);
        for (int step = first; step < last; ++step) {
          const unsigned to = stages + stage * Gemm::kStageBytes;
          barrier_wait(empty + 8 * stage, phase ^ 1);
          barrier_expect(full + 8 * stage, Gemm::kStageBytes);
          Gemm::load_a(to, map_a, full + 8 * stage, step * Gemm::kTileK, tile,
                       tile.batch * args.a_batch);
          Gemm::load_b(to + Gemm::kBytesA, map_b, full + 8 * stage, step * Gemm::kTileK, tile,
                       tile.batch * args.b_batch, tile_rank);
          if (++stage == kStages) {
            stage = 0;
            phase ^= 1;
          }
        }
        if (unit + unit_step >= num_units) release_successor();
      }
      if constexpr (kSplit) {  // matches the cluster barriers in reduce_cluster
        __syncwarp();
        cluster_sync();
        cluster_sync();
      }
    }
  } else {
    if constexpr (Gemm::kConsumers > 1) register_alloc<Gemm::kConsumers == 2 ? 232 : 160>();
    const int consumer = warpgroup - 1;
    const bool releases = (threadIdx.x & 127) < Gemm::kShare;
    for (int unit = static_cast<int>(blockIdx.x) / kCluster; unit < num_units; unit += unit_step) {
      const typename Gemm::Tile tile = Gemm::tile_at(args, unit, tile_rank);
      const int first = (kSplit ? rank : tile.split) * args.k_steps_per_split;
      const int steps = min(args.k_steps_per_split, args.k_steps - first);
      typename Gemm::Acc acc[kReps][kTileN / 2];
      typename Gemm::Acc promoted[Gemm::kPromote ? kReps : 1][kTileN / 2];
      // This block's K range may be empty.
      if constexpr (kSplit && !Gemm::kPromote) Gemm::clear(acc);
      if constexpr (Gemm::kPromote) Gemm::clear(promoted);
      unsigned previous = 0;
      for (int step = 0; step < steps; ++step) {
        const unsigned from = stages + stage * Gemm::kStageBytes;
        barrier_wait(full + 8 * stage, phase);
#pragma unroll
        for (int r = 0; r < kReps; ++r) wgmma_touch(acc[r]);
        wgmma_fence();
        const bool add = Gemm::kPromote ? step % Gemm::kPromoteSteps != 0 : kSplit || step != 0;
        Gemm::multiply(acc, from + consumer * kReps * 64 * 128, from + Gemm::kBytesA, add);
        wgmma_commit();
        if (step != 0) {
          wgmma_wait<1>();
          if (releases) barrier_release<Gemm::kShare>(previous);
        }
        previous = empty + 8 * stage;
        if (++stage == kStages) {
          stage = 0;
          phase ^= 1;
        }
        if constexpr (Gemm::kPromote) {
          if (step % Gemm::kPromoteSteps == Gemm::kPromoteSteps - 1 || step + 1 == steps) {
            wgmma_wait<0>();
            Gemm::promote(acc, promoted);
          }
        }
      }
      wgmma_wait<0>();
#pragma unroll
      for (int r = 0; r < kReps; ++r) wgmma_touch(acc[r]);
      if (releases && steps > 0) barrier_release<Gemm::kShare>(previous);
      const int row = tile.m + consumer * kReps * 64;
      const int batch = tile.split * args.batches + tile.batch;
      const unsigned buffer = buffers + consumer * Gemm::kBufferBytes;
      auto& sums = Gemm::template chosen<Gemm::kPromote>(acc, promoted);
      if constexpr (kSplit) {
        typename Gemm::Acc sum[kReps][Gemm::kWidth / 2];
        Gemm::reduce_cluster(sums, sum, stages, consumer, rank);
        Gemm::WayOut::run(sum, map_c, args.target, epilogue, row, tile.n + rank * Gemm::kWidth,
                          batch, buffer, 1 + consumer);
        __syncwarp();
        cluster_wait();
      } else {
        Gemm::WayOut::run(sums, map_c, args.target, epilogue, row, tile.n, batch, buffer,
                          1 + consumer);
      }
    }
    if (kStore != kStoreStrided && (threadIdx.x & 127) == 0) wait_stores<0>();
  }
  // A neighbour may still write to this block's memory, or signal its barriers.
  if constexpr (Gemm::kShare > 1) {
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace gpk
