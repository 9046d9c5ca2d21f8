// native/kernels/common/fast_math.cuh in C++.
#pragma once

#include "common/dtype.cuh"

namespace gpk {

inline float exp2_fast(float x) { return std::exp2(x); }

inline unsigned halves_of_e4m3(unsigned pair) {
  const auto half = [&](unsigned byte) {
    const float8_e4m3fn x{static_cast<unsigned char>(byte)};
    return static_cast<unsigned>(ptx::to_half(to_compute(x)));
  };
  return half(pair & 0xffu) | half(pair >> 8 & 0xffu) << 16;
}

}  // namespace gpk
