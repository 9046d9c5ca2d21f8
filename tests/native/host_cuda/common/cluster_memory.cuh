// native/kernels/common/cluster_memory.cuh on the host: static memory is the second half of a
// block's.
#pragma once

#include "common/shared.cuh"

namespace gpk {

template <class T>
T& block_shared() {
  static_assert(sizeof(T) <= host_cuda::kArenaBytes / 2);
  return *reinterpret_cast<T*>(host_cuda::t_arena + host_cuda::kArenaBytes / 2);
}

template <class T>
T* shared_of(T* p, unsigned rank) {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(host_cuda::t_arena);
  return reinterpret_cast<T*>(host_cuda::g_arena.data() + rank * host_cuda::kArenaBytes + offset);
}

template <class T>
T load_shared_of(const T* p, unsigned rank) {
  return *shared_of(p, rank);
}

template <class T>
void store_shared_of(T* p, unsigned rank, T value) {
  *shared_of(p, rank) = value;
}

}  // namespace gpk
