// Of each frame: the mean of x^2, and how many neighbours differ in sign (up to 1e-10 a sample
// counts as 0, which is positive).
// Grid: x frames, a warp each; y lines.
#pragma once

#include "args/audio.h"

namespace gpk {

using namespace kernels;

template <class R>
__device__ __forceinline__ bool is_below_zero(R x) {
  return x < R(-1e-10);
}

template <class R>
__global__ void __launch_bounds__(kAudioThreads)
    audio_frame_stats(const __grid_constant__ FrameStatsArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long frame =
      static_cast<long long>(blockIdx.x) * (kAudioThreads / 32) + threadIdx.x / 32;
  if (frame >= args.num_frames) return;
  for (long long line = blockIdx.y; line < args.lines; line += gridDim.y) {
    const R* const x = static_cast<const R*>(args.x) + line * args.n + frame * args.hop;
    R sum = R(0);
    int count = 0;
    for (int i = lane; i < args.frame; i += 32) {
      const R value = x[i];
      sum += value * value;
      if (i > 0 && is_below_zero(value) != is_below_zero(x[i - 1])) ++count;
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, o);
      count += __shfl_xor_sync(0xffffffffu, count, o);
    }
    if (lane == 0) {
      const long long at = line * args.num_frames + frame;
      static_cast<R*>(args.mean_square)[at] = sum / static_cast<R>(args.frame);
      static_cast<R*>(args.crossings)[at] = static_cast<R>(count);
    }
  }
}

}  // namespace gpk
