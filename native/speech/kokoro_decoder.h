// From aligned text, pitch and energy to samples: the decoder and its iSTFTNet generator.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "speech/kokoro_config.h"
#include "speech/kokoro_layers.h"
#include "speech/kokoro_source.h"
#include "speech/kokoro_text.h"

namespace gpk::speech {

// Called with intermediate results, for comparison; may be empty.
using KokoroTrace = std::function<void(std::string_view stage, const Array& value)>;

class KokoroGenerator {
 public:
  KokoroGenerator(const KokoroWeights& weights, const KokoroConfig& config, StyleBank& bank,
                  DType dtype);
  // x is [1, channels, 2 frames], pitch [1, 2 frames]: samples, float32.
  [[nodiscard]] Array run(const Array& x, const Array& styles, const Array& pitch,
                          const SourceNoise& noise, const KokoroTrace& trace) const;

 private:
  struct Stage {
    ConvTranspose up;
    Conv noise_conv;
    SnakeBlock noise_block;
    std::vector<SnakeBlock> blocks;
  };
  Array run_stage(const Stage& stage, const Array& x, const Array& harmonics, const Array& styles,
                  bool last) const;

  DType dtype_;
  std::int64_t bins_;
  HarmonicSource source_;
  ShortTransform transform_;
  std::vector<Stage> stages_;
  Conv post_;
};

class KokoroDecoder {
 public:
  // Convolutions are in `dtype`; the source, norms' sums and the inverse STFT in float32.
  KokoroDecoder(const KokoroWeights& weights, const KokoroConfig& config, DType dtype);
  // text is [1, hidden, frames], style [1, style].
  [[nodiscard]] Array run(const Array& text, const Prosody& prosody, const Array& style,
                          const SourceNoise& noise, const KokoroTrace& trace) const;

 private:
  DType dtype_;
  StyleBank bank_;
  AdaInBlock encode_;
  std::vector<AdaInBlock> decode_;
  Conv pitch_conv_;
  Conv energy_conv_;
  Conv text_conv_;
  KokoroGenerator generator_;
};

}  // namespace gpk::speech
