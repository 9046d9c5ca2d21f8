// Values that running blocks of one grid pass to each other through global memory: a word of 64
// bits holds a float and a tag that says whose it is, so that a reader needs no barrier and no
// second load. Tests on the host replace this file (tests/native/host_cuda).
#pragma once

namespace gpk {

__device__ __forceinline__ void publish(unsigned long long* to, float value, unsigned tag) {
  const unsigned long long word =
      static_cast<unsigned long long>(tag) << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

// Waits until the word has that tag. The writer must be running or have run.
__device__ __forceinline__ float receive(const unsigned long long* from, unsigned tag) {
  unsigned long long word;
  do {
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  } while (static_cast<unsigned>(word >> 32) != tag);
  return __uint_as_float(static_cast<unsigned>(word));
}

}  // namespace gpk
