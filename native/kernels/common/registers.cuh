// Registers moved between the warpgroups of a block (SM90a and later): all warps of a warpgroup
// call these.
#pragma once

namespace gpk {

template <int kCount>
__device__ __forceinline__ void register_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void register_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace gpk
