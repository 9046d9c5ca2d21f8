// Bulk copies to shared memory (SM90 and later), which one thread starts and an mbarrier counts.
#pragma once

namespace gpk {

// Whole multiples of 16 bytes, both addresses aligned to it; signals `barrier` by bytes.
__device__ __forceinline__ void bulk_copy(unsigned to, const void* from, unsigned bytes,
                                          unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace gpk
