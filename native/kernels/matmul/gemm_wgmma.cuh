// C = A B on SM90a with wgmma and bulk tensor copies; A and B lie along or across k.
// A block is one producer warpgroup and kTileM / 64 / kReps consumers. The producer's one thread
// keeps kStages tiles of A and B (128 bytes of k each, 128-byte swizzle) on their way; a consumer
// multiplies 64 * kReps rows. A cluster of kCluster blocks makes tiles one below the other and
// shares B: each block fetches a part for all. Blocks stay: they take tile after tile, in groups of
// `group` rows of tiles, so that what runs at one time shares A and B in the L2. Sums go through
// shared memory, 64 rows by 128 bytes at a time, two buffers a consumer, and out by bulk copies that
// run on under the next tile. Every element is summed in order of k. Dynamic shared memory:
// GemmWgmma::kSharedBytes. Tile shapes and pipeline as in public Hopper kernels (docs/matmul.md).
#pragma once

#include "common/dtype.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"
#include "matmul/epilogue.cuh"

namespace gpk {

// Mirrored by GemmWgmmaArgs in ops/matmul/engine_wgmma.cpp.
struct GemmWgmmaArgs {
  void* c;                       // for stores without a map
  long long c_m, c_n, c_batch;   // its strides in elements, of the rows and columns made here
  int m, n;                      // rows and columns made here
  int tiles_m, tiles_n;          // tiles_m in units of clusters
  int batches, splits;           // a split is a part of k with results of its own
  int k_steps, k_steps_per_split;
  int group;
  int a_batch, b_batch;          // 0: the same matrix for all batches
};

enum WgmmaStore {
  kStoreRows = 0,     // C's rows by bulk copies
  kStoreColumns = 1,  // rows made here run along C's columns: the tile is turned on its way
  kStoreStrided = 2,  // element by element
};

template <class A, class B, class Out, int kTileM, int kTileN, int kReps, int kStages, int kCluster,
          int kTransA, int kTransB, int kStore, unsigned kEpilogue>
struct GemmWgmma {
  using Acc = typename WgmmaAcc<A>::type;
  static constexpr int kConsumers = kTileM / 64 / kReps;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr int kTileK = 128 / static_cast<int>(sizeof(A));
  static constexpr int kBytesA = kTileM * 128;
  static constexpr int kBytesB = kTileN * 128;
  static constexpr int kStageBytes = kBytesA + kBytesB;
  // A chunk: 64 rows by kChunk columns of sums. Turned, its rows are 64 elements wide.
  static constexpr int kWidest = 128 / static_cast<int>(sizeof(Out));
  static constexpr int kChunk = kStore == kStoreColumns     ? (kTileN % 64 == 0 ? 64 : kTileN % 32 == 0 ? 32 : kTileN % 16 == 0 ? 16 : 8)
                                : kTileN % kWidest == 0     ? kWidest
                                : kTileN % (kWidest / 2) == 0 ? kWidest / 2
                                : kTileN % (kWidest / 4) == 0 ? kWidest / 4
                                                              : kWidest / 8;
  static constexpr int kChunkBytes = 64 * kChunk * static_cast<int>(sizeof(Out));
  static constexpr int kBarrierBytes = 16 * kStages;
  static constexpr int kSharedBytes =
      1024 + kStages * kStageBytes + kConsumers * 2 * kChunkBytes + kBarrierBytes;
  static_assert(kStore != kStoreColumns || sizeof(Out) == 2);
  static_assert(kTransB == 0 || kTileN % (64 * kCluster) == 0);

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
    return {((first + rest - column * rows) * kCluster + rank) * kTileM, column * kTileN,
            outer % args.batches, outer / args.batches};
  }

  // --- Producer ----------------------------------------------------------------------------------

  static __device__ __forceinline__ void load_a(unsigned char* to, const TensorMap& map,
                                                unsigned long long* full, int k, const Tile& tile,
                                                int batch) {
    if constexpr (kTransA == 0) {
      load_box(to, map, full, k, tile.m, batch);
    } else {
#pragma unroll
      for (int panel = 0; panel < kTileM / 64; ++panel)
        load_box(to + panel * kTileK * 128, map, full, tile.m + panel * 64, k, batch);
    }
  }

  static __device__ __forceinline__ void load_b(unsigned char* to, const TensorMap& map,
                                                unsigned long long* full, int k, const Tile& tile,
                                                int batch, int rank) {
    constexpr unsigned short kAll = (1 << kCluster) - 1;
    if constexpr (kTransB == 0) {
      constexpr int kRows = kTileN / kCluster;
      if constexpr (kCluster == 1) {
        load_box(to, map, full, k, tile.n, batch);
      } else {
        load_box_multicast(to + rank * kRows * 128, map, full, k, tile.n + rank * kRows, batch,
                           kAll);
      }
    } else {
      constexpr int kPanels = kTileN / 64 / kCluster;
#pragma unroll
      for (int i = 0; i < kPanels; ++i) {
        const int panel = rank * kPanels + i;
        if constexpr (kCluster == 1) {
          load_box(to + panel * kTileK * 128, map, full, tile.n + panel * 64, k, batch);
        } else {
          load_box_multicast(to + panel * kTileK * 128, map, full, tile.n + panel * 64, k, batch,
                             kAll);
        }
      }
    }
  }

  // --- Consumer ----------------------------------------------------------------------------------

  static __device__ __forceinline__ void multiply(Acc (&acc)[kReps][kTileN / 2], unsigned a,
                                                  unsigned b, int add) {
    const unsigned long long b_first = operand(b, kTileK * 128);
    const unsigned long long a_first = operand(a, kTileK * 128);
    constexpr int kStepA = kTransA == 0 ? 2 : 128;  // 16 bytes each
    constexpr int kStepB = kTransB == 0 ? 2 : 128;
    constexpr int kRepA = 64 * 128 / 16;  // 64 rows, or one panel
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int r = 0; r < kReps; ++r)
        Wgmma<kTileN, A, B, kTransA, kTransB>::run(acc[r], a_first + r * kRepA + step * kStepA,
                                                   b_first + step * kStepB,
                                                   step == 0 ? add : 1);
  }

  static __device__ __forceinline__ unsigned pack(float low, float high) {
    const Out x = from_compute<Out>(low);
    const Out y = from_compute<Out>(high);
    return static_cast<unsigned>(y.bits) << 16 | x.bits;
  }

  // The place of 16 bytes number `chunk16` of a row, rows `kPitch` bytes long, as bulk copies
  // swizzle them.
  template <int kPitch>
  static __device__ __forceinline__ unsigned swizzled(int row, int chunk16) {
    if constexpr (kPitch == 128) return row * 128 + ((chunk16 ^ (row & 7)) << 4);
    if constexpr (kPitch == 64) return row * 64 + ((chunk16 ^ (row >> 1 & 3)) << 4);
    if constexpr (kPitch == 32) return row * 32 + ((chunk16 ^ (row >> 2 & 1)) << 4);
    return row * kPitch + (chunk16 << 4);
  }

  // Columns [first, first + kChunk) of a warp's sums to the buffer.
  static __device__ __forceinline__ void stage(const Acc (&acc)[kTileN / 2], int first,
                                               unsigned buffer, int warp, int lane) {
    if constexpr (sizeof(Out) == 2) {
#pragma unroll
      for (int g = 0; g < kChunk / 8; g += 2) {
        const int at = (first / 8 + g) * 4;
        const unsigned x0 = pack(acc[at], acc[at + 1]);
        const unsigned x1 = pack(acc[at + 2], acc[at + 3]);
        const int matrix = lane >> 3;
        if constexpr (kChunk == 8) {
          // One group of eight columns: two matrices, the addresses of the first sixteen lanes.
          const unsigned to =
              kStore == kStoreColumns
                  ? buffer + swizzled<128>(lane & 7, warp * 2 + (matrix & 1))
                  : buffer + swizzled<kChunk * 2>(warp * 16 + (matrix & 1) * 8 + (lane & 7), 0);
          if constexpr (kStore == kStoreColumns) {
            asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to),
                         "r"(x0), "r"(x1)
                         : "memory");
          } else {
            asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to),
                         "r"(x0), "r"(x1)
                         : "memory");
          }
        } else {
          const unsigned x2 = pack(acc[at + 4], acc[at + 5]);
          const unsigned x3 = pack(acc[at + 6], acc[at + 7]);
          if constexpr (kStore == kStoreColumns) {
            const unsigned to = buffer + swizzled<128>((g + (matrix >> 1)) * 8 + (lane & 7),
                                                       warp * 2 + (matrix & 1));
            asm volatile(
                "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                "r"(x0), "r"(x1), "r"(x2), "r"(x3)
                : "memory");
          } else {
            const unsigned to =
                buffer + swizzled<kChunk * 2>(warp * 16 + (matrix & 1) * 8 + (lane & 7),
                                              g + (matrix >> 1));
            asm volatile(
                "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                "r"(x0), "r"(x1), "r"(x2), "r"(x3)
                : "memory");
          }
        }
      }
    } else {
      static_assert(sizeof(Out) == 4);
      constexpr int kPitch = kChunk * 4;
      const int row = warp * 16 + (lane >> 2);
#pragma unroll
      for (int g = 0; g < kChunk / 8; ++g) {
        const int at = (first / 8 + g) * 4;
        const int chunk16 = g * 2 + (lane & 3) / 2;
        const unsigned inside = (lane & 1) * 8;
        const unsigned to0 = buffer + swizzled<kPitch>(row, chunk16) + inside;
        const unsigned to1 = buffer + swizzled<kPitch>(row + 8, chunk16) + inside;
        if constexpr (kIsSame<Acc, float>) {
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to0), "f"(acc[at]),
                       "f"(acc[at + 1])
                       : "memory");
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to1), "f"(acc[at + 2]),
                       "f"(acc[at + 3])
                       : "memory");
        } else {
          asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to0), "r"(acc[at]),
                       "r"(acc[at + 1])
                       : "memory");
          asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to1), "r"(acc[at + 2]),
                       "r"(acc[at + 3])
                       : "memory");
        }
      }
    }
  }

  // From the buffer to C with any strides.
  static __device__ __forceinline__ void store_strided(const GemmWgmmaArgs& args,
                                                       const unsigned char* buffer, int row0,
                                                       int col0, long long batch, int thread) {
    constexpr int kPitch = kChunk * static_cast<int>(sizeof(Out));
    Out* const c = static_cast<Out*>(args.c) + batch * args.c_batch;
    for (int e = thread; e < 64 * kChunk; e += 128) {
      const int row = e / kChunk;
      const int col = e - row * kChunk;
      const int byte = col * static_cast<int>(sizeof(Out));
      if (row0 + row < args.m && col0 + col < args.n)
        c[(row0 + row) * args.c_m + (col0 + col) * args.c_n] = *reinterpret_cast<const Out*>(
            buffer + swizzled<kPitch>(row, byte >> 4) + (byte & 15));
    }
  }

  static __device__ __forceinline__ void finish(Acc (&acc)[kTileN / 2], const EpilogueArgs& epilogue,
                                                const GemmWgmmaArgs& args, int row, int col,
                                                long long batch) {
    if constexpr (kEpilogue != 0) {
#pragma unroll
      for (int i = 0; i < kTileN / 2; ++i) {
        // Rows and columns outside of C are not stored, but must not be looked up either.
        const long long r = min(row + (i & 2 ? 8 : 0), args.m - 1);
        const long long c = min(col + (i >> 2) * 8 + (i & 1), args.n - 1);
        if constexpr (kStore == kStoreColumns) {
          acc[i] = Epilogue<Out, kEpilogue>::run(epilogue, acc[i], c, r, batch);
        } else {
          acc[i] = Epilogue<Out, kEpilogue>::run(epilogue, acc[i], r, c, batch);
        }
      }
    }
  }

  static __device__ __forceinline__ void store(Acc (&acc)[kReps][kTileN / 2], const TensorMap& map_c,
                                               const GemmWgmmaArgs& args,
                                               const EpilogueArgs& epilogue, const Tile& tile,
                                               unsigned char* buffers, int consumer) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    const int warp = thread >> 5;
    const int lane = thread & 31;
    const int out_batch = tile.split * args.batches + tile.batch;
#pragma unroll
    for (int r = 0; r < kReps; ++r) {
      const int row0 = tile.m + (consumer * kReps + r) * 64;
      finish(acc[r], epilogue, args, row0 + warp * 16 + (lane >> 2), tile.n + (lane & 3) * 2,
             out_batch);
#pragma unroll
      for (int i = 0; i < kTileN / kChunk; ++i) {
        const int number = r * (kTileN / kChunk) + i;
        unsigned char* const buffer = buffers + (number & 1) * kChunkBytes;
        if (kStore != kStoreStrided && thread == 0) wait_stores_read<1>();
        named_sync(1 + consumer, 128);
        stage(acc[r], i * kChunk, shared_address(buffer), warp, lane);
        if constexpr (kStore == kStoreStrided) {
          named_sync(1 + consumer, 128);
          store_strided(args, buffer, row0, tile.n + i * kChunk, out_batch, thread);
        } else {
          shared_to_copies_fence();
          named_sync(1 + consumer, 128);
          if (thread == 0) {
            if constexpr (kStore == kStoreColumns) {
              store_box(map_c, buffer, row0, tile.n + i * kChunk, out_batch);
            } else {
              store_box(map_c, buffer, tile.n + i * kChunk, row0, out_batch);
            }
            commit_stores();
          }
        }
      }
    }
  }
};

template <class A, class B, class Out, int kTileM, int kTileN, int kReps, int kStages, int kCluster,
          int kTransA, int kTransB, int kStore, unsigned kEpilogue>
__global__ void __cluster_dims__(kCluster, 1, 1)
    __launch_bounds__(128 * (kTileM / 64 / kReps + 1), 1)
        gemm_wgmma_kernel(const __grid_constant__ TensorMap map_a,
                          const __grid_constant__ TensorMap map_b,
                          const __grid_constant__ TensorMap map_c, const GemmWgmmaArgs args,
                          const EpilogueArgs epilogue) {
  using Gemm = GemmWgmma<A, B, Out, kTileM, kTileN, kReps, kStages, kCluster, kTransA, kTransB,
                         kStore, kEpilogue>;
  extern __shared__ unsigned char raw_shared[];
  unsigned char* const stages =
      raw_shared + ((1024 - (shared_address(raw_shared) & 1023)) & 1023);
  unsigned char* const buffers = stages + kStages * Gemm::kStageBytes;
  unsigned long long* const full = reinterpret_cast<unsigned long long*>(
      buffers + Gemm::kConsumers * 2 * Gemm::kChunkBytes);
  unsigned long long* const empty = full + kStages;
  const int warpgroup = static_cast<int>(threadIdx.x) >> 7;
  const int rank = kCluster == 1 ? 0 : static_cast<int>(cluster_rank());
  const int num_units = args.batches * args.splits * args.tiles_m * args.tiles_n;
  const int unit_step = static_cast<int>(gridDim.x) / kCluster;

  if (threadIdx.x == 0) {
    prefetch_map(map_a);
    prefetch_map(map_b);
    for (int s = 0; s < kStages; ++s) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], Gemm::kConsumers * kCluster);
    }
    barrier_init_fence();
  }
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
    cluster_sync();
  }

  int stage = 0;
  unsigned phase = 0;
  if (warpgroup == 0) {
    if constexpr (Gemm::kConsumers == 2) keep_registers_down<40>();
    if (threadIdx.x == 0) {
      for (int unit = static_cast<int>(blockIdx.x) / kCluster; unit < num_units;
           unit += unit_step) {
        const typename Gemm::Tile tile = Gemm::tile_at(args, unit, rank);
        const int first = tile.split * args.k_steps_per_split;
        const int last = min(first + args.k_steps_per_split, args.k_steps);
        for (int step = first; step < last; ++step) {
          unsigned char* const to = stages + stage * Gemm::kStageBytes;
          barrier_wait(&empty[stage], phase ^ 1);
          barrier_expect(&full[stage], Gemm::kStageBytes);
          Gemm::load_a(to, map_a, &full[stage], step * Gemm::kTileK, tile,
                       tile.batch * args.a_batch);
          Gemm::load_b(to + Gemm::kBytesA, map_b, &full[stage], step * Gemm::kTileK, tile,
                       tile.batch * args.b_batch, rank);
          if (++stage == kStages) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
    }
  } else {
    if constexpr (Gemm::kConsumers == 2) take_registers<232>();
    const int consumer = warpgroup - 1;
    const bool releases = (threadIdx.x & 127) < kCluster;
    const unsigned release_rank = threadIdx.x & 127;
    for (int unit = static_cast<int>(blockIdx.x) / kCluster; unit < num_units; unit += unit_step) {
      const typename Gemm::Tile tile = Gemm::tile_at(args, unit, rank);
      const int first = tile.split * args.k_steps_per_split;
      const int steps = min(args.k_steps_per_split, args.k_steps - first);
      typename Gemm::Acc acc[kReps][kTileN / 2];
      int previous = 0;
      for (int step = 0; step < steps; ++step) {
        const unsigned a = shared_address(stages + stage * Gemm::kStageBytes) +
                           consumer * kReps * 64 * 128;
        const unsigned b = shared_address(stages + stage * Gemm::kStageBytes) + Gemm::kBytesA;
        barrier_wait(&full[stage], phase);
#pragma unroll
        for (int r = 0; r < kReps; ++r) wgmma_touch(acc[r]);
        wgmma_fence();
        Gemm::multiply(acc, a, b, step != 0);
        wgmma_commit();
        if (step != 0) {
          wgmma_wait<1>();
          if (releases) {
            if constexpr (kCluster == 1) {
              barrier_arrive(&empty[previous]);
            } else {
              barrier_arrive_at(&empty[previous], release_rank);
            }
          }
        }
        previous = stage;
        if (++stage == kStages) {
          stage = 0;
          phase ^= 1;
        }
      }
      wgmma_wait<0>();
#pragma unroll
      for (int r = 0; r < kReps; ++r) wgmma_touch(acc[r]);
      if (releases) {
        if constexpr (kCluster == 1) {
          barrier_arrive(&empty[previous]);
        } else {
          barrier_arrive_at(&empty[previous], release_rank);
        }
      }
      Gemm::store(acc, map_c, args, epilogue, tile, buffers + consumer * 2 * Gemm::kChunkBytes,
                  consumer);
    }
    if (kStore != kStoreStrided && (threadIdx.x & 127) == 0) wait_stores<0>();
  }
  // A neighbour may still write to this block's memory, or signal its barriers.
  if constexpr (kCluster > 1) {
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace gpk
