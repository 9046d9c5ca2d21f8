// One instruction each: 2^x, and 8-bit floats in pairs. Tests on the host replace this file
// (tests/native/host_cuda).
#pragma once

namespace gpk {

// 2^x, about 2 ulp; 0 for -inf.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two float8_e4m3fn, the low bytes of `pair`, as float16, exactly (SM89+).
__device__ __forceinline__ unsigned halves_of_e4m3(unsigned pair) {
  unsigned y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"(static_cast<unsigned short>(pair)));
  return y;
}

}  // namespace gpk
