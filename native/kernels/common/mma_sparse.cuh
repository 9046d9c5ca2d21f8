// Warp-level MMA with 2:4 sparsity (SM80+): C += A B with A of 16 rows, B of 8 columns and 32 of k.
// Of every four elements of a row of A along k two are stored, in a fragment of 16 of k as in
// mma.cuh; b[2 s + kh] are the fragments of step s of B there.
// A word of metadata has 16 columns of A: for row g in the low half, for row g + 8 in the upper;
// for each stored element, from the lowest bits on, two bits say which of the four it is, ascending
// in a pair. kPair: lanes 2 kPair and 2 kPair + 1 of each quad have columns 0 to 15 and 16 to 31.
#pragma once

#include "common/dtype.cuh"

namespace gpk {

// Since NVRTC 12.5: hardware from SM90 on is slow without the promise.
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1205
#define GPK_MMA_SP "mma.sp.sync.aligned."
#else
#define GPK_MMA_SP "mma.sp::ordered_metadata.sync.aligned."
#endif

template <class T>
struct SparseMma;

#define GPK_SPARSE_MMA(T, kTypes)                                                                  \
  template <>                                                                                      \
  struct SparseMma<T> {                                                                            \
    template <int kPair>                                                                           \
    static __device__ __forceinline__ void run(float (&c)[4], const unsigned (&a)[4], unsigned b0, \
                                               unsigned b1, unsigned b2, unsigned b3,              \
                                               unsigned metadata) {                                \
      asm volatile(GPK_MMA_SP                                                                      \
                   "m16n8k32.row.col." kTypes                                                      \
                   " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, "   \
                   "%12, %13;"                                                                     \
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(b2),        \
                     "r"(b3), "r"(metadata), "n"(kPair));                                          \
    }                                                                                              \
  };

GPK_SPARSE_MMA(bfloat16, "f32.bf16.bf16.f32")
GPK_SPARSE_MMA(float16, "f32.f16.f16.f32")
#undef GPK_SPARSE_MMA
#undef GPK_MMA_SP

}  // namespace gpk
