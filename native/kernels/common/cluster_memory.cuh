// The static shared memory of a block, and the shared memory of other blocks of its cluster. Tests
// on the host replace this file (tests/native/host_cuda).
#pragma once

#include "common/shared.cuh"

namespace gpk {

// The one variable of this type.
template <class T>
__device__ __forceinline__ T& block_shared() {
  __shared__ T memory;
  return memory;
}

// The variable of block `rank` of the cluster that is `p` in this one; 4 or 8 bytes.
template <class T>
__device__ __forceinline__ T load_shared_of(const T* p, unsigned rank) {
  T value;
  if constexpr (sizeof(T) == 8) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %1, %2;\n"
        "ld.shared::cluster.u64 %0, [remote];\n"
        "}"
        : "=l"(value)
        : "r"(shared_address(p)), "r"(rank)
        : "memory");
  } else {
    static_assert(sizeof(T) == 4);
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %1, %2;\n"
        "ld.shared::cluster.u32 %0, [remote];\n"
        "}"
        : "=r"(value)
        : "r"(shared_address(p)), "r"(rank)
        : "memory");
  }
  return value;
}

// Stores to it; 4 bytes.
template <class T>
__device__ __forceinline__ void store_shared_of(T* p, unsigned rank, T value) {
  static_assert(sizeof(T) == 4);
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.u32 [remote], %2;\n"
      "}" ::"r"(shared_address(p)),
      "r"(rank), "r"(*reinterpret_cast<const unsigned*>(&value))
      : "memory");
}

}  // namespace gpk
