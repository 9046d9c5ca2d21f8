// The driver's descriptor of a tensor in global memory (CUtensorMap), for TMA copies.
#pragma once

namespace gpk::kernels {

struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};
static_assert(sizeof(TensorMap) == 128 && __is_trivially_copyable(TensorMap));

}  // namespace gpk::kernels
