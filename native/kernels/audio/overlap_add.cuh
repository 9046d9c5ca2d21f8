// out[t] = sum over frames f of frames[f, t - f hop] window[t - f hop], divided by the sum of
// window[t - f hop]^2 where that is a normal number. Without a window, the sum of the frames alone.
// Grid: x outputs, y lines. A gather: no atomics, and the order of summation is that of the frames.
#pragma once

#include "args/audio.h"

namespace gpk {

using namespace kernels;

template <class R>
__global__ void __launch_bounds__(kAudioThreads)
    audio_overlap_add(const __grid_constant__ OverlapAddArgs args) {
  const long long at = static_cast<long long>(blockIdx.x) * kAudioThreads + threadIdx.x;
  if (at >= args.count) return;
  const long long t = at + args.start;
  const long long past = t - args.n;  // the last sample before the first frame that has t
  const long long first = past < 0 ? 0 : past / args.hop + 1;
  const long long last = t / args.hop < args.num_frames ? t / args.hop : args.num_frames - 1;
  const R* const window = static_cast<const R*>(args.window);
  R norm = R(0);
  if (window != nullptr)
    for (long long f = first; f <= last; ++f) {
      const R w = window[t - f * args.hop];
      norm += w * w;
    }
  const R least = sizeof(R) == 4 ? R(1.17549435e-38) : R(2.2250738585072014e-308);
  const R scale = norm > least ? R(1) / norm : R(1);
  for (long long line = blockIdx.y; line < args.lines; line += gridDim.y) {
    const R* const frames = static_cast<const R*>(args.frames) + line * args.num_frames * args.n;
    R sum = R(0);
    for (long long f = first; f <= last; ++f) {
      const long long i = t - f * args.hop;
      const R value = frames[f * args.n + i];
      sum += window != nullptr ? value * window[i] : value;
    }
    static_cast<R*>(args.out)[line * args.count + at] = sum * scale;
  }
}

}  // namespace gpk
