// out[i] = value, for patterns the driver's memset lacks (8 and 16 bytes). T is an unsigned 64-bit
// word or a pair of them. Grid-stride loop; any grid works.
#pragma once

namespace gpk {

struct alignas(16) Word128 {
  unsigned long long lo, hi;
};

template <class T>
__global__ void fill_kernel(T* out, T value, long long n) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step)
    out[i] = value;
}

}  // namespace gpk
