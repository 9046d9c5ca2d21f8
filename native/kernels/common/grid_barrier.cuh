// A barrier of all blocks of a cooperative grid, for some of the threads of each.
#pragma once

#include "common/barrier.cuh"

namespace gpk {

// counters: two words, zero before and after. Every block makes the same calls, with kThreads
// threads from thread 0 on.
template <int kId, int kThreads>
class GridBarrier {
 public:
  __device__ __forceinline__ explicit GridBarrier(unsigned* counters) : counters_(counters) {}

  // What any thread has written before is visible to all after it.
  __device__ __forceinline__ void sync() {
    target_ += gridDim.x;
    named_sync(kId, kThreads);
    if (threadIdx.x == 0) {
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counters_) : "memory");
      unsigned arrived;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(arrived)
                     : "l"(counters_)
                     : "memory");
      } while (arrived < target_);
    }
    named_sync(kId, kThreads);
  }

  // After the last sync(): nobody reads the first counter any more once all blocks are here.
  __device__ __forceinline__ void finish() const {
    if (threadIdx.x != 0) return;
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(counters_ + 1)
                 : "memory");
    if (before != gridDim.x - 1) return;
    counters_[0] = 0;
    counters_[1] = 0;
  }

 private:
  unsigned* counters_;
  unsigned target_ = 0;
};

}  // namespace gpk
