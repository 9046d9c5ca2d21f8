// native/kernels/common/shared.cuh in C++. An address is a distance from the arena, which is in the
// same two gigabytes as every static variable.
#pragma once

namespace gpk {

inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(p) -
                               reinterpret_cast<std::uintptr_t>(host_cuda::g_arena.data()));
}

namespace detail {

inline unsigned char* at_shared(unsigned address) {
  return host_cuda::g_arena.data() + static_cast<int>(address);
}

}  // namespace detail

inline unsigned char* dynamic_shared() { return host_cuda::t_arena; }

inline void load_shared(unsigned (&v)[4], unsigned address) {
  std::memcpy(v, detail::at_shared(address), 16);
}
inline void load_shared(unsigned& x, unsigned& y, unsigned address) {
  std::memcpy(&x, detail::at_shared(address), 4);
  std::memcpy(&y, detail::at_shared(address) + 4, 4);
}
inline void load_shared(unsigned& x, unsigned address) {
  std::memcpy(&x, detail::at_shared(address), 4);
}

template <int kBytes>
void store_shared(unsigned address, unsigned value) {
  std::memcpy(detail::at_shared(address), &value, kBytes);
}

inline unsigned fresh_block_x() { return blockIdx.x; }

}  // namespace gpk
