// Asynchronous copies from global to shared memory that bypass registers (SM80+). A copy of kBytes
// (4, 8 or 16, both addresses aligned to it) reads the first `bytes` of them and zero-fills the
// rest; with 0 nothing is read, but the address must be inside the operand.
#pragma once

#include "common/shared.cuh"

namespace gpk {

// 16-byte copies bypass the L1: tiles are used once per block and shared through the L2.
template <int kBytes>
__device__ __forceinline__ void cp_async(unsigned to, const void* from, int bytes) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
}

// Same, unpredicated.
template <int kBytes>
__device__ __forceinline__ void cp_async(unsigned to, const void* from) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                 : "memory");
  }
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all but the newest kPending groups of this thread have arrived.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace gpk
