// Warp-level MMA (SM80+): fragments from shared memory, and C += A B with A of 16 rows, B of 8
// columns and 32 bytes of K: 16 elements of 16 bits, 32 of 8 bits (FP8: SM89+), 8 of TF32.
// Registers of thread (g = lane / 4, t = lane % 4), as in the PTX manual:
//   a[h + 2 kh]: row g + 8h, k of byte 16 kh + 4t on;  b[kh]: column g, the same k;
//   c[2 h + e]: row g + 8h, column 2t + e.
#pragma once

#include "common/dtype.cuh"

namespace gpk {

// Four 8 x 16 byte matrices; each group of eight lanes supplies the row addresses of one.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Same, with each matrix transposed in units of 16 bits.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// To the nearest TF32: ties to even where one instruction does it, else away from zero.
__device__ __forceinline__ unsigned round_to_tf32(unsigned bits) {
  unsigned y;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(bits)));
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(bits)));
#endif
  return y;
}

// Accumulator type of a product.
template <class T>
struct MmaAcc {
  using Type = float;
};
template <>
struct MmaAcc<signed char> {
  using Type = int;
};

// A product takes kParts instructions, kPart = 0, 1, ...
template <class TA, class TB>
struct Mma;

#define GPK_MMA(TA, TB, kShapeAndTypes, Acc, kConstraint)                                        \
  template <>                                                                                    \
  struct Mma<TA, TB> {                                                                           \
    static constexpr int kParts = 1;                                                             \
    template <int kPart>                                                                         \
    static __device__ __forceinline__ void run(Acc (&c)[4], const unsigned (&a)[4], unsigned b0, \
                                               unsigned b1) {                                    \
      asm volatile("mma.sync.aligned." kShapeAndTypes                                            \
                   " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"            \
                   : "+" kConstraint(c[0]), "+" kConstraint(c[1]), "+" kConstraint(c[2]),        \
                     "+" kConstraint(c[3])                                                       \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));              \
    }                                                                                            \
  };

GPK_MMA(bfloat16, bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
GPK_MMA(float16, float16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
GPK_MMA(float, float, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
GPK_MMA(signed char, signed char, "m16n8k32.row.col.s32.s8.s8.s32", int, "r")

// FP8: from SM89 on. SM90 and SM100 support it only in other instructions and would emulate this
// one slowly. float16 holds all FP8 values, so convert, one half of k at a time.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
template <class T>
__device__ __forceinline__ unsigned widen_fp8(unsigned short pair) {
  unsigned y;
  if constexpr (kIsSame<T, float8_e4m3fn>) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"(pair));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(y) : "h"(pair));
  }
  return y;
}

template <class TA, class TB>
struct Mma {
  static_assert(sizeof(TA) == 1 && sizeof(TB) == 1, "FP8");
  static constexpr int kParts = 2;
  // Of a thread's four k, the first two map to the instruction's lower k, the others to its upper
  // ones: in A as in B.
  template <int kPart>
  static __device__ __forceinline__ void run(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    const unsigned b = kPart == 0 ? b0 : b1;
    const unsigned wide[4] = {widen_fp8<TA>(static_cast<unsigned short>(a[2 * kPart])),
                              widen_fp8<TA>(static_cast<unsigned short>(a[2 * kPart + 1])),
                              widen_fp8<TA>(static_cast<unsigned short>(a[2 * kPart] >> 16)),
                              widen_fp8<TA>(static_cast<unsigned short>(a[2 * kPart + 1] >> 16))};
    Mma<float16, float16>::run<0>(c, wide, widen_fp8<TB>(static_cast<unsigned short>(b)),
                                  widen_fp8<TB>(static_cast<unsigned short>(b >> 16)));
  }
};
#else
GPK_MMA(float8_e4m3fn, float8_e4m3fn, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
GPK_MMA(float8_e4m3fn, float8_e5m2, "m16n8k32.row.col.f32.e4m3.e5m2.f32", float, "f")
GPK_MMA(float8_e5m2, float8_e4m3fn, "m16n8k32.row.col.f32.e5m2.e4m3.f32", float, "f")
GPK_MMA(float8_e5m2, float8_e5m2, "m16n8k32.row.col.f32.e5m2.e5m2.f32", float, "f")
#endif
#undef GPK_MMA

}  // namespace gpk
