// A chain of launches as one cooperative kernel: linear layers of few rows (gemv_mma), writes to KV
// caches (kv_write) and attention to them (decode_mma), each with the bits of its own kernel. A
// grid barrier stands between two of them. A warp of each block loads weights through a ring
// (weight_ring.cuh) and never waits for a barrier of the grid.
// Grid: a block for each multiprocessor; units are assigned round-robin across phases. Threads:
// kChainWarps warps that compute (attention: four of them), one that loads.
// Shared memory: ChainArgs. Numerics: those of the kernels.
#pragma once

#include "chain/attend.cuh"
#include "chain/linear.cuh"
#include "common/grid_barrier.cuh"
#include "common/registers.cuh"

namespace gpk {

#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)

template <class T, class Kv, int kDim>
class ChainCompute {
 public:
  __device__ __forceinline__ ChainCompute(const ChainArgs& args, const ChainShared& shared)
      : args_(args), shared_(shared), tables_(shared.tables, args.tables) {}

  __device__ __forceinline__ void run(WeightRing& ring) const {
    GridBarrier<kChainBarrier, 32 * kChainWarps> grid(args_.counters);
    fetch_phase(0);
    tables_.fetch(args_.tables);
    cp_async_wait<0>();
    SyncChain::run();
    for (int p = 0; p < args_.num_phases; ++p) {
      if (p > 0) {
        cp_async_wait<0>();  // of the phase
        grid.sync();
      }
      if (p + 1 < args_.num_phases) fetch_phase(p + 1);
      ChainPhase& phase = shared_.phases[p % 2];
      if (phase.kind == ChainKind::kGemv) {
        run_linear(phase, ring);
      } else if (phase.kind == ChainKind::kKvWrite) {
        run_write(phase);
      } else {
        run_attention(phase);
      }
    }
    SyncChain::run();
    grid.finish();
  }

 private:
  // To shared memory, for the time after the next barrier.
  __device__ __forceinline__ void fetch_phase(int p) const {
    constexpr int kQuads = static_cast<int>(sizeof(ChainPhase)) / 16;
    const auto i = static_cast<int>(threadIdx.x);
    if (i < kQuads)
      cp_async<16>(shared_address(&shared_.phases[p % 2]) + i * 16,
                   reinterpret_cast<const uint4*>(args_.phases + p) + i);
    cp_async_commit();
  }

  __device__ __forceinline__ void run_linear(const ChainPhase& phase, WeightRing& ring) const {
    if (first_unit(phase) >= phase.num_units) return;
    const GemvArgs& args = *reinterpret_cast<const GemvArgs*>(phase.work);
    const ChainInput<T> x(args, shared_address(shared_.rows));
    x.copy(args);
    if ((phase.flags & kChainNormed) != 0) {
      if (args.norm_centred != 0) {
        x.template normalise<true>(args);
      } else {
        x.template normalise<false>(args);
      }
    }
    SyncChain::run();
    if ((phase.flags & kChainGated) != 0) {
      ChainLinear<T, true>(phase, x, shared_.sums).run(phase, ring);
    } else {
      ChainLinear<T, false>(phase, x, shared_.sums).run(phase, ring);
    }
  }

  // A unit has a head in each group of threads.
  __device__ __forceinline__ void run_write(ChainPhase& phase) const {
    KvWriteArgs& args = *reinterpret_cast<KvWriteArgs*>(phase.work);
    tables_.patch(args, phase.flags);
    SyncChain::run();
    for (int unit = first_unit(phase); unit < phase.num_units;
         unit += static_cast<int>(gridDim.x)) {
      const int item = unit * 32 * kChainWarps + static_cast<int>(threadIdx.x);
      write_head<T, Kv>(args, item / args.group, item & (args.group - 1));
    }
  }

  __device__ __forceinline__ void run_attention(ChainPhase& phase) const {
    if (threadIdx.x >= 32 * kAttendWarps) return;
    AttentionArgs& args = *reinterpret_cast<AttentionArgs*>(phase.work);
    KvWriteArgs& write = *reinterpret_cast<KvWriteArgs*>(phase.work + ChainPhase::kSecond);
    const bool writes = (phase.flags & kChainWrites) != 0;
    tables_.patch(args, phase.flags);
    if (writes) tables_.patch(write, phase.flags);
    if (threadIdx.x == 0) {
      args.parts = args_.parts;
      args.counters = args_.counters + kChainCounters;
    }
    named_sync(kAttendBarrier, 32 * kAttendWarps);
    const ChainAttention<T, Kv, kDim> attention{args, write, shared_.rows,
                                                shared_.rows + args_.row_bytes};
    for (int unit = first_unit(phase); unit < phase.num_units; unit += static_cast<int>(gridDim.x))
      attention.run(phase, unit, writes);
  }

  const ChainArgs& args_;
  const ChainShared& shared_;
  TableCopy tables_;
};

template <class T, class Kv, int kDim>
__global__ void __launch_bounds__(kChainThreads, 1)
    chain_kernel(const __grid_constant__ ChainArgs args) {
  const ChainShared shared(args, dynamic_shared());
  WeightRing ring(shared_address(shared.stages), shared_address(shared.barriers), args);
  __syncthreads();
  if (threadIdx.x < 32 * kChainWarps) {
    register_alloc<216>();
    ChainCompute<T, Kv, kDim>(args, shared).run(ring);
    return;
  }
  register_dealloc<72>();
  if (threadIdx.x >= 32 * (kChainWarps + 1)) return;
  load_weights<T>(args, shared.phases + 2, ring);
}

#endif

}  // namespace gpk
