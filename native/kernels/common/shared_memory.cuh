// The shared memory of a block, and of the other blocks of its cluster.
#pragma once

#include "common/barrier.cuh"

namespace gpk {

// The one variable of this type.
template <class T>
__device__ __forceinline__ T& block_shared() {
  __shared__ T memory;
  return memory;
}

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_bytes[];
  return reinterpret_cast<T*>(dynamic_bytes);
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
