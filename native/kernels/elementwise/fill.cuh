// out[i] = value, for patterns the driver's memset does not have (8 and 16 bytes).
// T is an unsigned 64-bit word or Word16. Grid-stride loop; any grid is right.
#pragma once

#include "common/vec.cuh"

namespace gpk {

template <class T>
__global__ void fill_kernel(T* out, T value, long long n) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step)
    out[i] = value;
}

}  // namespace gpk
