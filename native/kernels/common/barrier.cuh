// mbarriers in shared memory (eight bytes each, by address), cluster barriers and named barriers.
#pragma once

#include "common/shared.cuh"

namespace gpk {

__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Call after the inits, before any other thread uses the barriers.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the corresponding barrier in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ void barrier_arrive_at(unsigned barrier, unsigned rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Called by as many threads as blocks share the barrier's memory: each arrives at one of them.
template <int kBlocks>
__device__ __forceinline__ void barrier_release(unsigned barrier) {
  if constexpr (kBlocks == 1) {
    barrier_arrive(barrier);
  } else {
    barrier_arrive_at(barrier, threadIdx.x & 127);
  }
}

// Arrives and adds `bytes` to the transaction count.
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Blocks until the phase of that parity completes. Acquires at cluster scope, so that it may follow
// arrivals of other blocks.
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// All threads of all blocks of the cluster; whole warps. Release/acquire: writes before are visible
// after.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Sixteen bytes, to and from the block's own shared memory, and from the same address in block
// `rank`'s.
template <class T>
__device__ __forceinline__ void store_shared_quad(unsigned address, const T* x) {
  static_assert(sizeof(T) == 4);
  const unsigned* const bits = reinterpret_cast<const unsigned*>(x);
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(bits[0]),
               "r"(bits[1]), "r"(bits[2]), "r"(bits[3])
               : "memory");
}
__device__ __forceinline__ void load_shared_quad(unsigned address, unsigned (&x)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
template <class T>
__device__ __forceinline__ void load_shared_quad_of(unsigned address, unsigned rank, T* x) {
  static_assert(sizeof(T) == 4);
  unsigned* const bits = reinterpret_cast<unsigned*>(x);
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [remote];\n"
      "}"
      : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
      : "r"(address), "r"(rank)
      : "memory");
}

// `threads` threads of the block synchronise at barrier `id` (0 is that of __syncthreads).
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives there without waiting.
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace gpk
