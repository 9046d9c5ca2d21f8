// y[i] = b0 x[i] + s1, s1 <- b1 x[i] - a1 y[i] + s2, s2 <- b2 x[i] - a2 y[i], in double.
// A parallel scan: states are linear in what came before, s' = M s + v x. A thread runs over
// kBiquadRun samples from state 0; a scan over the block with powers of M gives the state before
// each run; a second run from there gives the outputs.
//   biquad_states:  the state after every tile of kBiquadTile samples, from 0
//   biquad_combine: along the tiles of a line, the state before each
//   biquad_outputs: the outputs
// Grid: x tiles, y lines; biquad_combine: a thread a line.
#pragma once

#include "args/audio.h"

namespace gpk {

using namespace kernels;

struct BiquadState {
  double s1, s2;
};

__device__ __forceinline__ BiquadState advance(const Matrix2& m, BiquadState s) {
  return {m.a * s.s1 + m.b * s.s2, m.c * s.s1 + m.d * s.s2};
}

__device__ __forceinline__ double biquad_step(const BiquadArgs& args, BiquadState& s, double x) {
  const double y = args.b0 * x + s.s1;
  s.s1 = args.b1 * x - args.a1 * y + s.s2;
  s.s2 = args.b2 * x - args.a2 * y;
  return y;
}

// Samples of a tile in shared memory; one of 9 is padding, so that threads walk their runs without
// bank conflicts.
template <class R>
struct BiquadTile {
  R* samples;           // [kBiquadTile * 9 / 8]
  BiquadState* states;  // [2, kAudioThreads]
  long long first;
  int valid;  // samples in the tile

  static __device__ __forceinline__ int slot(int i) { return i + i / kBiquadRun; }

  __device__ __forceinline__ void load(const BiquadArgs& args, const R* line) {
    first = static_cast<long long>(blockIdx.x) * kBiquadTile;
    const long long rest = args.n - first;
    valid = rest < kBiquadTile ? static_cast<int>(rest) : kBiquadTile;
    for (int i = static_cast<int>(threadIdx.x); i < kBiquadTile; i += kAudioThreads)
      samples[slot(i)] = i < valid ? line[first + i] : R(0);
    __syncthreads();
  }

  __device__ __forceinline__ BiquadState run(const BiquadArgs& args, BiquadState s) const {
    const int begin = static_cast<int>(threadIdx.x) * kBiquadRun;
#pragma unroll
    for (int i = 0; i < kBiquadRun; ++i)
      biquad_step(args, s, static_cast<double>(samples[slot(begin + i)]));
    return s;
  }

  // states[t] <- the state after run t, where `before` is the one before the tile.
  __device__ __forceinline__ BiquadState* scan(const BiquadArgs& args, BiquadState before) const {
    const int t = static_cast<int>(threadIdx.x);
    BiquadState* from = states;
    BiquadState* to = states + kAudioThreads;
    from[t] = run(args, t == 0 ? before : BiquadState{0.0, 0.0});
    __syncthreads();
#pragma unroll
    for (int level = 0; level < kBiquadLevels; ++level) {
      const int back = t - (1 << level);
      BiquadState s = from[t];
      if (back >= 0) {
        const BiquadState moved = advance(args.powers[level], from[back]);
        s.s1 += moved.s1;
        s.s2 += moved.s2;
      }
      to[t] = s;
      __syncthreads();
      BiquadState* const last = from;
      from = to;
      to = last;
    }
    return from;
  }
};

template <class R>
__global__ void __launch_bounds__(kAudioThreads)
    audio_biquad_states(const __grid_constant__ BiquadArgs args) {
  __shared__ R samples[kBiquadTile + kAudioThreads];
  __shared__ BiquadState states[2 * kAudioThreads];
  for (long long line = blockIdx.y; line < args.lines; line += gridDim.y) {
    BiquadTile<R> tile{samples, states, 0, 0};
    tile.load(args, static_cast<const R*>(args.x) + line * args.n);
    const BiquadState* const after = tile.scan(args, {0.0, 0.0});
    if (threadIdx.x == kAudioThreads - 1) {
      double* const to = args.carries + 2 * (line * args.tiles + blockIdx.x);
      to[0] = after[kAudioThreads - 1].s1;
      to[1] = after[kAudioThreads - 1].s2;
    }
    __syncthreads();
  }
}

template <class R>
__global__ void __launch_bounds__(kAudioThreads)
    audio_biquad_combine(const __grid_constant__ BiquadArgs args) {
  const long long line = static_cast<long long>(blockIdx.x) * kAudioThreads + threadIdx.x;
  if (line >= args.lines) return;
  BiquadState before = {0.0, 0.0};
  if (args.state != nullptr) before = {args.state[2 * line], args.state[2 * line + 1]};
  double* const carries = args.carries + 2 * line * args.tiles;
#pragma unroll 8
  for (long long tile = 0; tile < args.tiles; ++tile) {
    const BiquadState own = {carries[2 * tile], carries[2 * tile + 1]};
    carries[2 * tile] = before.s1;
    carries[2 * tile + 1] = before.s2;
    before = advance(args.powers[kBiquadLevels], before);
    before.s1 += own.s1;
    before.s2 += own.s2;
  }
}

template <class R>
__global__ void __launch_bounds__(kAudioThreads)
    audio_biquad_outputs(const __grid_constant__ BiquadArgs args) {
  __shared__ R samples[kBiquadTile + kAudioThreads];
  __shared__ BiquadState states[2 * kAudioThreads];
  const int t = static_cast<int>(threadIdx.x);
  const int begin = t * kBiquadRun;
  for (long long line = blockIdx.y; line < args.lines; line += gridDim.y) {
    BiquadTile<R> tile{samples, states, 0, 0};
    tile.load(args, static_cast<const R*>(args.x) + line * args.n);
    const double* const carry = args.carries != nullptr
                                    ? args.carries + 2 * (line * args.tiles + blockIdx.x)
                                : args.state != nullptr ? args.state + 2 * line
                                                        : nullptr;
    BiquadState before = {0.0, 0.0};
    if (carry != nullptr) before = {carry[0], carry[1]};
    const BiquadState* const after = tile.scan(args, before);
    BiquadState s = t == 0 ? before : after[t - 1];
    const bool has_last =
        tile.first + tile.valid == args.n && begin < tile.valid && tile.valid <= begin + kBiquadRun;
#pragma unroll
    for (int i = 0; i < kBiquadRun; ++i) {
      R& sample = samples[BiquadTile<R>::slot(begin + i)];
      sample = static_cast<R>(biquad_step(args, s, static_cast<double>(sample)));
      if (has_last && begin + i == tile.valid - 1) {
        args.state_out[2 * line] = s.s1;
        args.state_out[2 * line + 1] = s.s2;
      }
    }
    __syncthreads();
    R* const out = static_cast<R*>(args.out) + line * args.n + tile.first;
    for (int i = t; i < tile.valid; i += kAudioThreads) out[i] = samples[BiquadTile<R>::slot(i)];
    __syncthreads();
  }
}

}  // namespace gpk
