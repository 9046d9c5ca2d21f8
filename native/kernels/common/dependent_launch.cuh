// Programmatic dependent launch (SM90+): a kernel may start before its predecessor in the stream
// has ended. No-ops on older GPUs and in ordinary launches. Every kernel launched that way waits,
// so that one that has ended means all before it have.
#pragma once

namespace gpk {

// Until the preceding kernel has completed and its results are visible.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next kernel to start, once all blocks have called this.
__device__ __forceinline__ void release_successor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The first statement of a short kernel: its successor is set up while it runs.
__device__ __forceinline__ void start_dependent() {
  release_successor();
  wait_for_predecessor();
}

}  // namespace gpk
