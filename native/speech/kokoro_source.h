// The source of the generator: harmonics of the pitch and noise, and their spectrum.
#pragma once

#include <optional>

#include "core/array.h"
#include "ops/random/random.h"
#include "speech/kokoro_config.h"
#include "speech/kokoro_layers.h"

namespace gpk::speech {

// Normal numbers of the source: given, or drawn.
struct SourceNoise {
  std::optional<Array> values;  // float32 [samples, kKokoroHarmonics]
  ops::RandomState state;       // where there are none
};

// sin(2 pi h phase) of harmonics h, each a tenth in amplitude, where there is a pitch; a little
// noise there, more elsewhere; merged by a linear layer and tanh.
class HarmonicSource {
 public:
  HarmonicSource(const KokoroWeights& weights, const IstftNetConfig& config);
  // pitch is [1, frames]: [1, frames * samples_per_frame].
  [[nodiscard]] Array run(const Array& pitch, const SourceNoise& noise) const;

 private:
  // [harmonics, frames], accumulated; [harmonics, samples], between frames.
  Array phase_of_frames(const Array& pitch) const;
  Array phase_of_samples(const Array& phase) const;

  std::int64_t scale_;  // samples per frame
  Array w_;             // [1, harmonics]
  Array b_;             // [1]
  Array harmonics_;     // [harmonics, 1]: 1, 2, ...
};

// STFT and inverse STFT with a periodic Hann window as long as the transform, as convolutions.
class ShortTransform {
 public:
  ShortTransform(const IstftNetConfig& config, Device device);
  // x is [1, samples]: magnitudes, then phases, [1, n_fft + 2, samples / hop + 1].
  [[nodiscard]] Array forward(const Array& x) const;
  // Magnitudes and phases [1, n_fft / 2 + 1, frames] each: [(frames - 1) * hop].
  [[nodiscard]] Array inverse(const Array& magnitude, const Array& phase) const;

 private:
  std::int64_t n_fft_;
  std::int64_t hop_;
  Array analysis_;   // [n_fft + 2, 1, n_fft]: cosines, then sines, times the window
  Array synthesis_;  // the same shape
  Array squares_;    // [1, 1, n_fft]: of the window
};

}  // namespace gpk::speech
