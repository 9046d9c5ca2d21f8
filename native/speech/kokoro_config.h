// The numbers of a Kokoro model, as its config.json has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace gpk::speech {

// PL-BERT: an ALBERT whose layers share weights.
struct PlBertConfig {
  std::int64_t embedding_size = 128;
  std::int64_t hidden_size = 768;
  std::int64_t intermediate_size = 2048;
  std::int64_t num_layers = 12;
  std::int64_t num_groups = 1;  // of layers that share weights
  std::int64_t inner_group_num = 1;
  std::int64_t num_heads = 12;
  std::int64_t max_positions = 512;
  double norm_eps = 1e-12;
};

// The generator: transposed convolutions, residual blocks and an inverse STFT.
struct IstftNetConfig {
  std::vector<std::int64_t> upsample_rates = {10, 6};
  std::vector<std::int64_t> upsample_kernel_sizes = {20, 12};
  std::int64_t upsample_initial_channel = 512;
  std::vector<std::int64_t> resblock_kernel_sizes = {3, 7, 11};
  std::vector<std::vector<std::int64_t>> resblock_dilation_sizes = {
      {1, 3, 5}, {1, 3, 5}, {1, 3, 5}};
  std::int64_t n_fft = 20;
  std::int64_t hop = 5;

  // Samples for each value of the pitch curve.
  [[nodiscard]] std::int64_t samples_per_frame() const;
};

struct KokoroConfig {
  std::int64_t n_token = 178;
  std::int64_t hidden_dim = 512;
  std::int64_t n_layer = 3;
  std::int64_t max_dur = 50;  // frames of a token, at speed 1
  std::int64_t style_dim = 128;
  std::int64_t text_encoder_kernel_size = 5;
  PlBertConfig plbert;
  IstftNetConfig istftnet;

  // Samples of one frame of a duration: two values of the pitch curve.
  [[nodiscard]] std::int64_t samples_per_duration() const {
    return 2 * istftnet.samples_per_frame();
  }
};

inline constexpr std::int64_t kKokoroSampleRate = 24'000;
inline constexpr std::int64_t kKokoroHarmonics = 9;  // the fundamental and eight overtones

// Members that are not there keep their defaults. Throws InvalidArgument that names the member,
// what was given and what was expected.
KokoroConfig read_kokoro_config(const Json& json);
void check_kokoro_config(const KokoroConfig& config);

}  // namespace gpk::speech
