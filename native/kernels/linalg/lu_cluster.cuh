// lu_panel by a cluster of blocks (grid: x one cluster, y matrices): candidates and the pivot's row
// are read from each other's shared memory, with one barrier of the cluster for each column.
#pragma once

#include "common/barrier.cuh"
#include "common/cluster_memory.cuh"
#include "linalg/lu_panel.cuh"

namespace gpk {

// What is at p in this block, in block `rank`.
__device__ __forceinline__ int remote(const int* p, unsigned rank) {
  return static_cast<int>(load_shared_of(reinterpret_cast<const unsigned*>(p), rank));
}
__device__ __forceinline__ float remote(const float* p, unsigned rank) {
  return __uint_as_float(load_shared_of(reinterpret_cast<const unsigned*>(p), rank));
}
__device__ __forceinline__ double remote(const double* p, unsigned rank) {
  return __longlong_as_double(
      static_cast<long long>(load_shared_of(reinterpret_cast<const unsigned long long*>(p), rank)));
}
template <class R>
__device__ __forceinline__ Complex<R> remote(const Complex<R>* p, unsigned rank) {
  return {remote(&p->re, rank), remote(&p->im, rank)};
}

template <class T>
struct LuCluster : LuPanel<T> {
  using R = RealOf<T>;
  using LuPanel<T>::args, LuPanel<T>::a, LuPanel<T>::pitch, LuPanel<T>::lane, LuPanel<T>::top;
  using LuPanel<T>::LuPanel;

  // By one warp: this block's candidate.
  __device__ __forceinline__ void publish_candidate(int j) const {
    const Candidate<R> best = this->best_of_block(j);
    if (lane == 0) this->offers[j & 1] = best;
  }
  // By one warp, after the barrier: the pivot of all blocks, its row to `top`.
  __device__ __forceinline__ void reduce_pivot(int j) const {
    Candidate<R> best = Candidate<R>::none();
    int row = 0;
    if (lane < static_cast<int>(gridDim.x)) {
      const Candidate<R>* const from = this->offers + (j & 1);
      const auto rank = static_cast<unsigned>(lane);
      best = {remote(&from->size, rank), remote(&from->place, rank), lane};
      row = remote(&from->at, rank);
    }
    best.reduce();
    row = shuffle(row, best.at);
    for (int k = j + lane; k < args.cols; k += 32)
      top[k] = remote(a + row * pitch + k, static_cast<unsigned>(best.at));
    if (lane == 0) *this->chosen = best.place;
  }
};

template <class T>
__global__ __launch_bounds__(kPanelThreads,
                             1) void lu_cluster(const __grid_constant__ LuPanelArgs args) {
  const LuCluster<T> panel(args);
  panel.run([&](int j) {
    if (panel.warp == 0) panel.publish_candidate(j);
    cluster_sync();
    if (panel.warp == 0) panel.reduce_pivot(j);
  });
  cluster_sync();  // others read this block's memory
}

}  // namespace gpk
