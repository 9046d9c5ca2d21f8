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

// Waits until the words from[0], from[step], ... have that tag; `count` of them, at most kN. Their
// writers must be running or have run.
template <int kN>
__device__ __forceinline__ void receive(const unsigned long long* from, int step, int count,
                                        unsigned tag, float (&values)[kN]) {
  unsigned long long words[kN];
  bool all;
  do {  // all loads before the first use
#pragma unroll
    for (int i = 0; i < kN; ++i)
      if (i < count)
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                     : "=l"(words[i])
                     : "l"(from + static_cast<long long>(i) * step)
                     : "memory");
    all = true;
#pragma unroll
    for (int i = 0; i < kN; ++i)
      if (i < count) all = all && static_cast<unsigned>(words[i] >> 32) == tag;
  } while (!all);
#pragma unroll
  for (int i = 0; i < kN; ++i)
    if (i < count) values[i] = __uint_as_float(static_cast<unsigned>(words[i]));
}

}  // namespace gpk
