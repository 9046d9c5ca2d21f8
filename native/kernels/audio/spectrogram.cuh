// Frames of a signal times a window, their spectra, powers, mel filters and logarithms in one pass.
// A real transform of 2n is a complex one of n on pairs of samples (fft/element.cuh); stages are
// those of fft/stages.cuh with roots from a table in shared memory.
// Grid: x tiles of kG frames, y lines. Block: kT threads a frame. Dynamic shared memory: the
// stages' kG * kPitch complex numbers, then n roots e^(-2 pi i k / 2n), then powers [kG][n + 1 or
// 2] (an odd pitch: threads that read the same bin of different frames are in different banks).
// audio_whisper_scale: x <- (max(x, top - 8) + 4) / 4, top the maximum of the line.
#pragma once

#include "args/audio.h"
#include "common/shared.cuh"
#include "fft/stages.cuh"

namespace gpk {

inline constexpr float kLeastFloat = -3.402823466e38f;

// The maximum; NaN where one is NaN.
__device__ __forceinline__ float larger(float a, float b) { return a > b || a != a ? a : b; }

__device__ __forceinline__ float padded_sample(const SpectrogramArgs& args, const float* x,
                                               long long i) {
  if (i < 0 || i >= args.n) {
    if (args.pad == AudioPad::kConstant) return 0.0f;
    if (args.pad == AudioPad::kEdge || args.n == 1) return x[i < 0 ? 0 : args.n - 1];
    // Once, but for signals shorter than the padding; no division, whose code would be large.
    while (i < 0 || i >= args.n) i = i < 0 ? -i : 2 * (args.n - 1) - i;
  }
  return x[i];
}

template <int kN, int kG>
struct SpectrogramBlock {
  static constexpr bool kHasRoots = true;
  static constexpr bool kFromShared = false;
  static constexpr int kPowerPitch = kN + 1 + kN % 2;  // n + 1 bins, odd
  struct Place {
    long long first = 0;  // sample of the frame's start
    bool inside = false;
  };
  const SpectrogramArgs& args;
  const float* x;  // the line
  const Complex<float>* roots;
  long long tile;

  __device__ __forceinline__ Place place(int g) const {
    const long long frame = tile * kG + g;
    return {frame * args.hop - args.padding, frame < args.num_frames};
  }

  template <unsigned kDen>
  __device__ __forceinline__ Complex<float> root(unsigned num) const {
    const unsigned index = num * (2 * kN / kDen);
    const Complex<float> w = roots[index < kN ? index : index - kN];
    return index < kN ? w : -w;
  }

  template <int kR>
  __device__ __forceinline__ void load(Complex<float> (&v)[kR], const Place& place,
                                       int first) const {
    constexpr int kStep = kN / kR;
    const bool whole = place.first >= 0 && place.first + 2 * kN <= args.n;
#pragma unroll
    for (int j = 0; j < kR; ++j) {
      const int i = 2 * (first + j * kStep);
      v[j] = {0.0f, 0.0f};
      if (!place.inside) continue;
      const float* const window = args.window + i;
      if (whole) {
        const float* const from = x + place.first + i;
        v[j] = {from[0] * window[0], from[1] * window[1]};
      } else {
        v[j] = {padded_sample(args, x, place.first + i) * window[0],
                padded_sample(args, x, place.first + i + 1) * window[1]};
      }
    }
  }
  template <int kR>
  __device__ __forceinline__ void store(Complex<float> (&)[kR], const Place&, int) const {}

  __device__ __forceinline__ float log_of(float value) const {
    switch (args.log) {
      case SpectrumLog::kLn: return logf(value + args.floor);
      case SpectrumLog::kLog10:
      case SpectrumLog::kWhisper:
        return log10f(value < args.floor ? args.floor : value);  // NaN stays NaN
      default: return value;
    }
  }

  // Filter m of frame g, from the powers.
  __device__ __forceinline__ float mel(const float* powers, int g, int m) const {
    const float* const weights = args.bank + static_cast<long long>(m) * (kN + 1);
    const float* const power = powers + g * kPowerPitch;
    float sum = 0.0f;
    const int end = args.ranges[2 * m + 1];
    for (int k = args.ranges[2 * m]; k < end; ++k) sum += weights[k] * power[k];
    return log_of(sum);
  }
};

template <int kT, int kG, int kPitch, int... kRadices>
__global__ void __launch_bounds__(kT* kG)
    audio_spectrogram(const __grid_constant__ SpectrogramArgs args) {
  using Stages = FftStages<float, kT, kG, kPitch, FftSide::kRow, FftSide::kRow, kRadices...>;
  constexpr int kN = Stages::kN;
  using Block = SpectrogramBlock<kN, kG>;
  constexpr int kThreads = kT * kG;
  Complex<float>* const shared = reinterpret_cast<Complex<float>*>(dynamic_shared());
  Complex<float>* const roots = shared + kG * kPitch;
  float* const powers = reinterpret_cast<float*>(roots + kN);
  const int t = static_cast<int>(threadIdx.x);
  for (int k = t; k < kN; k += kThreads)
    roots[k] = unit_root_of<float, 2 * kN>(static_cast<unsigned>(k));
  __syncthreads();
  const Stages stages{shared};
  const int g = Stages::template transform<FftSide::kRow>();
  for (long long line = blockIdx.y; line < args.lines; line += gridDim.y) {
    const Block block{args, args.x + line * args.n, roots, blockIdx.x};
    stages.template run<true>(block);
    const long long frame = block.tile * kG + g;
    const long long row = line * args.num_frames + frame;
    for (int k = Stages::template thread<FftSide::kRow>(); k <= kN; k += kT) {
      const Complex<float> z = stages.template slot<FftSide::kRow>(k == kN ? 0 : k);
      const Complex<float> mirror =
          conjugate(stages.template slot<FftSide::kRow>(k == 0 || k == kN ? 0 : kN - k));
      const Complex<float> even = scaled(z + mirror, 0.5f);
      const Complex<float> odd = times_minus_i(scaled(z - mirror, 0.5f));
      const Complex<float> w = k == kN ? Complex<float>{-1.0f, 0.0f} : roots[k];
      const Complex<float> y = even + w * odd;
      if (args.output == SpectrumOutput::kComplex) {
        if (frame < args.num_frames) static_cast<Complex<float>*>(args.out)[row * (kN + 1) + k] = y;
        continue;
      }
      const float power = y.re * y.re + y.im * y.im;
      if (args.output == SpectrumOutput::kMel) {
        powers[g * Block::kPowerPitch + k] = power;
      } else if (frame < args.num_frames) {
        static_cast<float*>(args.out)[row * (kN + 1) + k] =
            args.output == SpectrumOutput::kPower ? power : sqrtf(power);
      }
    }
    __syncthreads();
    if (args.output != SpectrumOutput::kMel) continue;
    float top = kLeastFloat;
    float* const out = static_cast<float*>(args.out) + line * args.num_frames * args.num_mels;
    for (int i = t; i < kG * args.num_mels; i += kThreads) {
      const int in_tile = args.transposed != 0 ? i % kG : i / args.num_mels;
      const int m = args.transposed != 0 ? i / kG : i % args.num_mels;
      const long long at = block.tile * kG + in_tile;
      if (at >= args.num_frames) continue;
      const float value = block.mel(powers, in_tile, m);
      top = larger(top, value);
      out[args.transposed != 0 ? m * args.num_frames + at : at * args.num_mels + m] = value;
    }
    if (args.log == SpectrumLog::kWhisper) {
      float* const tops = reinterpret_cast<float*>(shared);  // the stages are done with it
      tops[t] = top;
      __syncthreads();
      if (t < 32)
        for (int i = t + 32; i < kThreads; i += 32) top = larger(top, tops[i]);
      __syncthreads();
      if (t < 32) tops[t] = top;
      __syncthreads();
      if (t == 0) {
        for (int i = 1; i < 32; ++i) top = larger(top, tops[i]);
        args.maxima[line * gridDim.x + blockIdx.x] = top;
      }
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kAudioThreads)
    audio_whisper_scale(const __grid_constant__ WhisperScaleArgs args) {
  __shared__ float tops[kAudioThreads];
  const int t = static_cast<int>(threadIdx.x);
  for (long long line = blockIdx.y; line < args.lines; line += gridDim.y) {
    const float* const maxima = args.maxima + line * args.blocks;
    float top = maxima[0];
    for (long long b = t; b < args.blocks; b += kAudioThreads) {
      top = larger(top, maxima[b]);
    }
    tops[t] = top;
    __syncthreads();
#pragma unroll
    for (int o = kAudioThreads / 2; o > 0; o /= 2) {
      if (t < o) tops[t] = larger(tops[t], tops[t + o]);
      __syncthreads();
    }
    const float least = tops[0] - 8.0f;
    float* const x = args.x + line * args.count;
    const long long step = static_cast<long long>(gridDim.x) * kAudioThreads;
    for (long long i = static_cast<long long>(blockIdx.x) * kAudioThreads + t; i < args.count;
         i += step) {
      const float value = x[i];
      x[i] = ((value < least || least != least ? least : value) + 4.0f) * 0.25f;
    }
    __syncthreads();
  }
}

}  // namespace gpk
