// Shared memory by 32-bit address, which takes one register and no conversion; and the block index.
// Tests on the host replace this file, cp_async.cuh and mma.cuh (tests/native/host_cuda).
#pragma once

namespace gpk {

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// The block's dynamic shared memory.
__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_bytes[];
  return dynamic_shared_bytes;
}

__device__ __forceinline__ void load_shared(unsigned (&v)[4], unsigned address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_shared(unsigned& x, unsigned& y, unsigned address) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared(unsigned& x, unsigned address) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
}

// The low kBytes (1 or 2) of `value`.
template <int kBytes>
__device__ __forceinline__ void store_shared(unsigned address, unsigned value) {
  if constexpr (kBytes == 2) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<unsigned short>(value))
                 : "memory");
  } else {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
  }
}

// blockIdx.x, re-read here instead of being kept in a register.
__device__ __forceinline__ unsigned fresh_block_x() {
  unsigned x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  return x;
}

}  // namespace gpk
