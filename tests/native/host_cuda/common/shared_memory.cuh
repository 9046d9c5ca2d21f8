// native/kernels/common/shared_memory.cuh on the host.
#pragma once

namespace gpk {

template <class T>
T& block_shared() {
  static_assert(sizeof(T) <= sizeof(host_cuda::BlockMemory::fixed));
  return *reinterpret_cast<T*>(host_cuda::t_memory->fixed);
}

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(host_cuda::t_memory->dynamic);
}

template <class T>
T* shared_of(T* p, unsigned rank) {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(host_cuda::t_memory);
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(host_cuda::t_cluster_memory + rank) +
                              offset);
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
