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
T load_shared_of(const T* p, unsigned rank) {
  const auto offset = reinterpret_cast<const unsigned char*>(p) -
                      reinterpret_cast<const unsigned char*>(host_cuda::t_memory);
  return *reinterpret_cast<const T*>(
      reinterpret_cast<const unsigned char*>(host_cuda::t_cluster_memory + rank) + offset);
}

}  // namespace gpk
