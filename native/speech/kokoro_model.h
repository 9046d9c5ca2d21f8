// Kokoro: text-to-speech of phonemes in a style.
//
//   const KokoroModel model(config, KokoroWeights(tensors), DType::kBFloat16);
//   const KokoroSpeech speech = model.run({0, 50, 83, 0}, style, {.speed = 1.2});
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "speech/kokoro_config.h"
#include "speech/kokoro_decoder.h"
#include "speech/kokoro_text.h"

namespace gpk::speech {

struct KokoroOptions {
  double speed = 1.0;
  // Instead of what the model predicts.
  std::vector<std::int64_t> durations;  // frames of each token
  std::optional<Array> pitch;           // float32 [2 frames], in Hz
  std::optional<Array> energy;          // the same shape
  SourceNoise noise;
  KokoroTrace trace;
};

struct KokoroSpeech {
  Array samples;                        // float32, kKokoroSampleRate
  std::vector<std::int64_t> durations;  // of the tokens, in frames of samples_per_duration()
};

class KokoroModel {
 public:
  // On the device of the weights, which are not needed afterwards. `dtype` is that of the decoder's
  // convolutions: float32, float16 or bfloat16. Throws InvalidArgument.
  KokoroModel(const KokoroConfig& config, const KokoroWeights& weights, DType dtype);

  [[nodiscard]] const KokoroConfig& config() const noexcept { return config_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] std::int64_t num_parameters() const noexcept { return num_parameters_; }

  // Tokens with the padding token at both ends; style is float32 [2 style_dim], the decoder's half
  // first. Waits for the durations, since they decide the number of samples. Throws
  // InvalidArgument.
  [[nodiscard]] KokoroSpeech run(std::span<const std::int64_t> tokens, const Array& style,
                                 const KokoroOptions& options) const;

 private:
  void check(std::span<const std::int64_t> tokens, const Array& style,
             const KokoroOptions& options) const;
  std::vector<std::int64_t> frames_of(const Array& durations, const KokoroOptions& options) const;
  void replace_curve(Array& predicted, const std::optional<Array>& given, const char* what) const;

  KokoroConfig config_;
  DType dtype_;
  Device device_;
  std::int64_t num_parameters_;
  PlBert bert_;
  Linear bert_encoder_;
  TextEncoder text_encoder_;
  ProsodyPredictor predictor_;
  KokoroDecoder decoder_;
};

}  // namespace gpk::speech
