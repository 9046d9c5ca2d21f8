// out[m] = sum over k of taps[k, m % up] x[m * down / up - before + k], m * down / up rounded down.
// A polyphase FIR filter: one set of taps for each of the `up` phases of an output between samples.
// Grid: x phases and frames (a frame is `up` outputs), y lines. A thread has outputs of one phase,
// a quarter of the frames apart: taps are loaded once for all of them, and neighbouring threads
// have neighbouring outputs.
#pragma once

#include "args/audio.h"

namespace gpk {

using namespace kernels;

template <class R>
__device__ __forceinline__ R audio_sample(const ResampleArgs& args, const R* x, long long i) {
  if (args.edge != 0) return x[i < 0 ? 0 : i < args.n ? i : args.n - 1];
  return i >= 0 && i < args.n ? x[i] : R(0);
}

template <class R>
__global__ void __launch_bounds__(kAudioThreads)
    audio_resample(const __grid_constant__ ResampleArgs args) {
  const long long frames = (args.count + args.up - 1) / args.up;
  const long long step = (frames + kResampleFrames - 1) / kResampleFrames;
  const long long index = static_cast<long long>(blockIdx.x) * kAudioThreads + threadIdx.x;
  if (index >= step * args.up) return;
  const long long frame = index / args.up;
  const int phase = static_cast<int>(index - frame * args.up);
  const long long first =
      static_cast<long long>(phase) * args.down / args.up - args.before + frame * args.down;
  const R* const taps = static_cast<const R*>(args.taps) + phase;
  for (long long line = blockIdx.y; line < args.lines; line += gridDim.y) {
    const R* const x = static_cast<const R*>(args.x) + line * args.n;
    R sums[kResampleFrames] = {};
    for (int k = 0; k < args.num_taps; ++k) {
      const R tap = taps[static_cast<long long>(k) * args.up];
#pragma unroll
      for (int j = 0; j < kResampleFrames; ++j)
        sums[j] += tap * audio_sample(args, x, first + k + j * step * args.down);
    }
    R* const out = static_cast<R*>(args.out) + line * args.count;
#pragma unroll
    for (int j = 0; j < kResampleFrames; ++j) {
      const long long m = (frame + j * step) * args.up + phase;
      if (m < args.count) out[m] = sums[j];
    }
  }
}

}  // namespace gpk
