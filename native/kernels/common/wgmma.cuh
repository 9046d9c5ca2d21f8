// Warpgroup MMA (SM90a): D[64 x kN] += A[64 x k] B[k x kN], A and B in shared memory. A thread's
// accumulators: rows warp * 16 + lane / 4 (+ 8), columns 8 g + 2 (lane % 4) + {0, 1}; in order d[4
// g + 0, 1] of the upper row, d[4 g + 2, 3] of the lower. One k step is 32 bytes wide.
#pragma once

#include "common/dtype.cuh"
#include "common/registers.cuh"

namespace gpk {

// --- Operands ------------------------------------------------------------------------------------
// A tile is stored in rows of 128 bytes, eight of them one swizzle atom (1024 bytes, aligned).
// K-major: a row of the tile is 128 bytes of k; the next eight rows follow 1024 bytes later.
// M-major or N-major (16-bit types): a row is 64 elements of m (or n) at one k; panels of 64 follow
// `panel_bytes` apart.
__device__ __forceinline__ unsigned long long operand(unsigned address, unsigned panel_bytes) {
  return static_cast<unsigned long long>((address & 0x3ffffu) >> 4) |
         static_cast<unsigned long long>(panel_bytes >> 4) << 16 |
         static_cast<unsigned long long>(1024 >> 4) << 32 | 1ull << 62;
}

// --- Order ---------------------------------------------------------------------------------------
// Required before the first wgmma that uses registers written by other instructions.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving uses of the accumulators across wgmma.
template <int kSize, class Acc>
__device__ __forceinline__ void wgmma_touch(Acc (&d)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    if constexpr (kIsSame<Acc, float>) {
      asm volatile("" : "+f"(d[i])::"memory");
    } else {
      asm volatile("" : "+r"(d[i])::"memory");
    }
  }
}

// --- Instructions --------------------------------------------------------------------------------
template <class T>
struct WgmmaAcc {
  using type = float;
};
template <>
struct WgmmaAcc<signed char> {
  using type = int;
};

// run(d, a, b, add): d = a b, or d += a b where `add` is not 0. kTransA, kTransB: the operand is
// M-major or N-major.
template <int kN, class A, class B, int kTransA, int kTransB>
struct Wgmma;

// Operand lists: four registers are eight columns.
#define GPK_D4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define GPK_D8(c, i) GPK_D4(c, i), GPK_D4(c, i + 4)
#define GPK_D16(c, i) GPK_D8(c, i), GPK_D8(c, i + 8)
#define GPK_D32(c, i) GPK_D16(c, i), GPK_D16(c, i + 16)
#define GPK_D64(c, i) GPK_D32(c, i), GPK_D32(c, i + 32)
#define GPK_S0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define GPK_S8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define GPK_S16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define GPK_S24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define GPK_S32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define GPK_S40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define GPK_S48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define GPK_S56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define GPK_S64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define GPK_S72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define GPK_S80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define GPK_S88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define GPK_S96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define GPK_S104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define GPK_S112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define GPK_S120 "%120, %121, %122, %123, %124, %125, %126, %127"
#define GPK_SUMS_8 "%0, %1, %2, %3"
#define GPK_SUMS_24 GPK_S0 ", %8, %9, %10, %11"
#define GPK_SUMS_16 GPK_S0
#define GPK_SUMS_32 GPK_S0 ", " GPK_S8
#define GPK_SUMS_48 GPK_S0 ", " GPK_S8 ", " GPK_S16
#define GPK_SUMS_64 GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24
#define GPK_SUMS_80 GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32
#define GPK_SUMS_96 GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40
#define GPK_SUMS_112 \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48
#define GPK_SUMS_128 \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56
#define GPK_SUMS_144                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64
#define GPK_SUMS_160                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64 ", " GPK_S72
#define GPK_SUMS_176                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64 ", " GPK_S72 ", " GPK_S80
#define GPK_SUMS_192                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64 ", " GPK_S72 ", " GPK_S80 ", " GPK_S88
#define GPK_SUMS_208                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64 ", " GPK_S72 ", " GPK_S80 ", " GPK_S88 ", " GPK_S96
#define GPK_SUMS_224                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64 ", " GPK_S72 ", " GPK_S80 ", " GPK_S88 ", " GPK_S96 ", " GPK_S104
#define GPK_SUMS_240                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64 ", " GPK_S72 ", " GPK_S80 ", " GPK_S88 ", " GPK_S96 ", " GPK_S104            \
         ", " GPK_S112
#define GPK_SUMS_256                                                                               \
  GPK_S0 ", " GPK_S8 ", " GPK_S16 ", " GPK_S24 ", " GPK_S32 ", " GPK_S40 ", " GPK_S48 ", " GPK_S56 \
         ", " GPK_S64 ", " GPK_S72 ", " GPK_S80 ", " GPK_S88 ", " GPK_S96 ", " GPK_S104            \
         ", " GPK_S112 ", " GPK_S120
#define GPK_LIST_8(c) GPK_D4(c, 0)
#define GPK_LIST_16(c) GPK_D8(c, 0)
#define GPK_LIST_24(c) GPK_D8(c, 0), GPK_D4(c, 8)
#define GPK_LIST_32(c) GPK_D16(c, 0)
#define GPK_LIST_48(c) GPK_D16(c, 0), GPK_D8(c, 16)
#define GPK_LIST_64(c) GPK_D32(c, 0)
#define GPK_LIST_80(c) GPK_D32(c, 0), GPK_D8(c, 32)
#define GPK_LIST_96(c) GPK_D32(c, 0), GPK_D16(c, 32)
#define GPK_LIST_112(c) GPK_D32(c, 0), GPK_D16(c, 32), GPK_D8(c, 48)
#define GPK_LIST_128(c) GPK_D64(c, 0)
#define GPK_LIST_144(c) GPK_D64(c, 0), GPK_D8(c, 64)
#define GPK_LIST_160(c) GPK_D64(c, 0), GPK_D16(c, 64)
#define GPK_LIST_176(c) GPK_D64(c, 0), GPK_D16(c, 64), GPK_D8(c, 80)
#define GPK_LIST_192(c) GPK_D64(c, 0), GPK_D32(c, 64)
#define GPK_LIST_208(c) GPK_D64(c, 0), GPK_D32(c, 64), GPK_D8(c, 96)
#define GPK_LIST_224(c) GPK_D64(c, 0), GPK_D32(c, 64), GPK_D16(c, 96)
#define GPK_LIST_240(c) GPK_D64(c, 0), GPK_D32(c, 64), GPK_D16(c, 96), GPK_D8(c, 112)
#define GPK_LIST_256(c) GPK_D64(c, 0), GPK_D64(c, 64)

// One instruction: kN, the step in k, the accumulator type and its constraint, the types of A and
// B, the positions of a, b and add in the operand list, and what follows the predicate.
#define GPK_WGMMA_RUN(N, K, ACC, C, TYPES, P0, P1, P2, TAIL, ...)                          \
  static __device__ __forceinline__ void run(ACC(&d)[N / 2], unsigned long long a,         \
                                             unsigned long long b, int add) {              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P2                                  \
                 ", 0;\n"                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k" #K "." TYPES " {" GPK_SUMS_##N \
                 "}, %" #P0 ", %" #P1 ", p" TAIL ";\n}"                                    \
                 : GPK_LIST_##N(C)                                                         \
                 : "l"(a), "l"(b), "r"(add)__VA_ARGS__);                                   \
  }

#define GPK_COMMA ,
#define GPK_WGMMA_16BIT(N, T, NAME, P0, P1, P2, P3, P4)                                            \
  template <int kTransA, int kTransB>                                                              \
  struct Wgmma<N, T, T, kTransA, kTransB> {                                                        \
    GPK_WGMMA_RUN(N, 16, float, "+f", "f32." NAME "." NAME, P0, P1, P2, ", 1, 1, %" #P3 ", %" #P4, \
                  GPK_COMMA "n"(kTransA), "n"(kTransB))                                            \
  };
#define GPK_WGMMA_NARROW(N, K, A, B, ACC, C, TYPES, P0, P1, P2, TAIL) \
  template <>                                                         \
  struct Wgmma<N, A, B, 0, 0> {                                       \
    GPK_WGMMA_RUN(N, K, ACC, C, TYPES, P0, P1, P2, TAIL)              \
  };

#define GPK_WGMMA(N, P0, P1, P2, P3, P4)                                                          \
  GPK_WGMMA_16BIT(N, bfloat16, "bf16", P0, P1, P2, P3, P4)                                        \
  GPK_WGMMA_16BIT(N, float16, "f16", P0, P1, P2, P3, P4)                                          \
  GPK_WGMMA_NARROW(N, 8, float, float, float, "+f", "f32.tf32.tf32", P0, P1, P2, ", 1, 1")        \
  GPK_WGMMA_NARROW(N, 32, float8_e4m3fn, float8_e4m3fn, float, "+f", "f32.e4m3.e4m3", P0, P1, P2, \
                   ", 1, 1")                                                                      \
  GPK_WGMMA_NARROW(N, 32, float8_e4m3fn, float8_e5m2, float, "+f", "f32.e4m3.e5m2", P0, P1, P2,   \
                   ", 1, 1")                                                                      \
  GPK_WGMMA_NARROW(N, 32, float8_e5m2, float8_e4m3fn, float, "+f", "f32.e5m2.e4m3", P0, P1, P2,   \
                   ", 1, 1")                                                                      \
  GPK_WGMMA_NARROW(N, 32, float8_e5m2, float8_e5m2, float, "+f", "f32.e5m2.e5m2", P0, P1, P2,     \
                   ", 1, 1")

GPK_WGMMA(8, 4, 5, 6, 7, 8)
GPK_WGMMA(16, 8, 9, 10, 11, 12)
GPK_WGMMA(24, 12, 13, 14, 15, 16)
GPK_WGMMA(32, 16, 17, 18, 19, 20)
GPK_WGMMA(48, 24, 25, 26, 27, 28)
GPK_WGMMA(64, 32, 33, 34, 35, 36)
GPK_WGMMA(80, 40, 41, 42, 43, 44)
GPK_WGMMA(96, 48, 49, 50, 51, 52)
GPK_WGMMA(112, 56, 57, 58, 59, 60)
GPK_WGMMA(128, 64, 65, 66, 67, 68)
GPK_WGMMA(144, 72, 73, 74, 75, 76)
GPK_WGMMA(160, 80, 81, 82, 83, 84)
GPK_WGMMA(176, 88, 89, 90, 91, 92)
GPK_WGMMA(192, 96, 97, 98, 99, 100)
GPK_WGMMA(208, 104, 105, 106, 107, 108)
GPK_WGMMA(224, 112, 113, 114, 115, 116)
GPK_WGMMA(240, 120, 121, 122, 123, 124)
GPK_WGMMA(256, 128, 129, 130, 131, 132)

// A in registers: run(d, a, b, add) with the four words of a 64 x 16 tile, in the layout of
// accumulators: a thread's pairs of columns of its upper row, its lower row, and both again eight
// columns on.
template <int kN, class T, int kTransB>
struct WgmmaRegisters;

#define GPK_WGMMA_REGISTERS_OF(N, T, NAME, A0, A1, A2, A3, B, ADD, TRANS)                         \
  template <int kTransB>                                                                          \
  struct WgmmaRegisters<N, T, kTransB> {                                                          \
    static __device__ __forceinline__ void run(float (&d)[N / 2], const unsigned* a,              \
                                               unsigned long long b, int add) {                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #ADD                                      \
                   ", 0;\n"                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME                \
                   " {" GPK_SUMS_##N "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B          \
                                     ", p, 1, 1, %" #TRANS ";\n}"                                 \
                   : GPK_LIST_##N("+f")                                                           \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(kTransB)); \
    }                                                                                             \
  };
#define GPK_WGMMA_REGISTERS(N, A0, A1, A2, A3, B, ADD, TRANS)                \
  GPK_WGMMA_REGISTERS_OF(N, bfloat16, "bf16", A0, A1, A2, A3, B, ADD, TRANS) \
  GPK_WGMMA_REGISTERS_OF(N, float16, "f16", A0, A1, A2, A3, B, ADD, TRANS)

GPK_WGMMA_REGISTERS(64, 32, 33, 34, 35, 36, 37, 38)
GPK_WGMMA_REGISTERS(96, 48, 49, 50, 51, 52, 53, 54)
GPK_WGMMA_REGISTERS(128, 64, 65, 66, 67, 68, 69, 70)
GPK_WGMMA_REGISTERS(192, 96, 97, 98, 99, 100, 101, 102)
GPK_WGMMA_REGISTERS(256, 128, 129, 130, 131, 132, 133, 134)

// Integers support fewer widths.
GPK_WGMMA_NARROW(8, 32, signed char, signed char, int, "+r", "s32.s8.s8", 4, 5, 6, "")
GPK_WGMMA_NARROW(16, 32, signed char, signed char, int, "+r", "s32.s8.s8", 8, 9, 10, "")
GPK_WGMMA_NARROW(24, 32, signed char, signed char, int, "+r", "s32.s8.s8", 12, 13, 14, "")
GPK_WGMMA_NARROW(32, 32, signed char, signed char, int, "+r", "s32.s8.s8", 16, 17, 18, "")
GPK_WGMMA_NARROW(48, 32, signed char, signed char, int, "+r", "s32.s8.s8", 24, 25, 26, "")
GPK_WGMMA_NARROW(64, 32, signed char, signed char, int, "+r", "s32.s8.s8", 32, 33, 34, "")
GPK_WGMMA_NARROW(80, 32, signed char, signed char, int, "+r", "s32.s8.s8", 40, 41, 42, "")
GPK_WGMMA_NARROW(96, 32, signed char, signed char, int, "+r", "s32.s8.s8", 48, 49, 50, "")
GPK_WGMMA_NARROW(112, 32, signed char, signed char, int, "+r", "s32.s8.s8", 56, 57, 58, "")
GPK_WGMMA_NARROW(128, 32, signed char, signed char, int, "+r", "s32.s8.s8", 64, 65, 66, "")
GPK_WGMMA_NARROW(144, 32, signed char, signed char, int, "+r", "s32.s8.s8", 72, 73, 74, "")
GPK_WGMMA_NARROW(160, 32, signed char, signed char, int, "+r", "s32.s8.s8", 80, 81, 82, "")
GPK_WGMMA_NARROW(176, 32, signed char, signed char, int, "+r", "s32.s8.s8", 88, 89, 90, "")
GPK_WGMMA_NARROW(192, 32, signed char, signed char, int, "+r", "s32.s8.s8", 96, 97, 98, "")
GPK_WGMMA_NARROW(208, 32, signed char, signed char, int, "+r", "s32.s8.s8", 104, 105, 106, "")
GPK_WGMMA_NARROW(224, 32, signed char, signed char, int, "+r", "s32.s8.s8", 112, 113, 114, "")
GPK_WGMMA_NARROW(240, 32, signed char, signed char, int, "+r", "s32.s8.s8", 120, 121, 122, "")
GPK_WGMMA_NARROW(256, 32, signed char, signed char, int, "+r", "s32.s8.s8", 128, 129, 130, "")

}  // namespace gpk
