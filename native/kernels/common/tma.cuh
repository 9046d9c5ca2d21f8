// TMA copies between global and shared memory (SM90 and later), and their fences. A TensorMap is
// encoded by the driver on the host and passed as a __grid_constant__. Shared memory is given by
// its 32-bit address.
#pragma once

#include "args/tensor_map.h"
#include "common/barrier.cuh"

namespace gpk {

using kernels::TensorMap;

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Loads a box of `map` at (x, y, z), x innermost, to shared memory; signals `barrier` by bytes.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, unsigned barrier, int x,
                                         int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// Same of a tensor of four dimensions.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, unsigned barrier, int x,
                                         int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// Same to the corresponding address in every block of the cluster whose bit is set in `blocks`,
// signalling the barrier of each.
__device__ __forceinline__ void load_box_multicast(unsigned to, const TensorMap& map,
                                                   unsigned barrier, int x, int y, int z,
                                                   unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}

// Elements outside of the tensor are not written.
__device__ __forceinline__ void store_box(const TensorMap& map, unsigned from, int x, int y,
                                          int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          &map),
      "r"(from), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most kPending groups of this thread's stores still have to read shared memory.
template <int kPending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

template <int kPending>
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Makes this thread's shared memory writes visible to copies issued after it.
__device__ __forceinline__ void shared_to_copies_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace gpk
