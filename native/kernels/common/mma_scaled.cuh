// Warp-level MMA with block scales (SM120): C += (A sA) (B sB), A of 16 rows, B of 8 columns, and
// 32 bytes of K in the fragments of mma.cuh: 32 e4m3, or 64 e2m1, the first of two in the low
// nibble. kBytes scales of a row (a column of B) belong to a step, in order of k: one for 32 of
// e4m3, two for 32 of e2m1 each, four for 16 each. kStep selects the bytes of the words of scales.
// Lanes 0 and 1 of quad g supply the scales of rows g and g + 8 of A, lane 0 those of column g of
// B.
#pragma once

#include "args/quantize.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

template <int kCode, int kScale>
struct ScaledMma;

#define GPK_SCALED_MMA(kCode, kScale, kNumBytes, kShapeAndTypes)                                   \
  template <>                                                                                      \
  struct ScaledMma<kCode, kScale> {                                                                \
    static constexpr int kBytes = kNumBytes;                                                       \
    template <int kStep>                                                                           \
    static __device__ __forceinline__ void run(float (&c)[4], const unsigned (&a)[4], unsigned b0, \
                                               unsigned b1, const unsigned (&scale_a)[kBytes],     \
                                               const unsigned (&scale_b)[kBytes]) {                \
      constexpr int kWord = kStep * kBytes / 4;                                                    \
      asm volatile("mma.sync.aligned." kShapeAndTypes                                              \
                   " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "             \
                   "%10, {%12, 0}, %11, {%12, 0};"                                                 \
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),                 \
                     "r"(scale_a[kWord]), "r"(scale_b[kWord]), "n"(kStep * kBytes % 4));           \
    }                                                                                              \
  };

GPK_SCALED_MMA(kCodeE4M3, kScaleE8M0, 1,
               "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0")
GPK_SCALED_MMA(kCodeE2M1, kScaleE8M0, 2,
               "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0")
GPK_SCALED_MMA(kCodeE2M1, kScaleE4M3, 4,
               "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3")
#undef GPK_SCALED_MMA

}  // namespace gpk
