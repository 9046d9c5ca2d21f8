// From phonemes to prosody: PL-BERT, the text encoder, durations, pitch and energy. In float32:
// durations and pitch decide about samples.
#pragma once

#include <vector>

#include "speech/kokoro_config.h"
#include "speech/kokoro_layers.h"

namespace gpk::speech {

// Tokens are int64 [tokens].
class PlBert {
 public:
  PlBert(const KokoroWeights& weights, const PlBertConfig& config, std::int64_t n_token);
  [[nodiscard]] Array run(const Array& tokens) const;  // [1, tokens, hidden]

 private:
  struct Layer {
    Layer(const KokoroWeights& weights, const std::string& name, const PlBertConfig& config);
    Array qkv, qkv_bias;  // [3 hidden, hidden]
    Linear dense, ffn, ffn_output;
    LayerNorm attention_norm, output_norm;
  };
  Array attend(const Array& x, const Layer& layer) const;

  PlBertConfig config_;
  Array embedding_;
  Array positions_;  // and the embedding of the only token type
  LayerNorm norm_;
  Linear mapping_;
  std::vector<Layer> layers_;  // of all groups
};

// Convolutions and an LSTM over embedded tokens: [1, tokens, hidden].
class TextEncoder {
 public:
  TextEncoder(const KokoroWeights& weights, const KokoroConfig& config);
  [[nodiscard]] Array run(const Array& tokens) const;

 private:
  struct Block {
    Conv conv;
    LayerNorm norm;
  };
  Array embedding_;
  std::vector<Block> blocks_;
  BiLstm lstm_;
};

// Pitch and energy, two values for each frame of a duration.
struct Prosody {
  Array pitch;   // [1, 2 frames], in Hz
  Array energy;  // the same shape
};

class ProsodyPredictor {
 public:
  ProsodyPredictor(const KokoroWeights& weights, const KokoroConfig& config);

  // styles: [1, ...], what a style gives to the norms; used by all below.
  [[nodiscard]] Array styles(const Array& style) const { return bank_.run(style); }
  // x is [1, tokens, hidden]: [1, tokens, hidden + style].
  [[nodiscard]] Array encode(const Array& x, const Array& style, const Array& styles) const;
  // Of encoded tokens: frames as real numbers, [1, tokens].
  [[nodiscard]] Array durations(const Array& encoded) const;
  // aligned is `encoded` with a row for each frame.
  [[nodiscard]] Prosody prosody(const Array& aligned, const Array& styles) const;

 private:
  struct EncoderLayer {
    BiLstm lstm;
    StyleBank::Place norm;
  };
  std::int64_t hidden_;
  StyleBank bank_;
  std::vector<EncoderLayer> encoder_;
  BiLstm lstm_;
  Linear duration_;
  BiLstm shared_;
  std::vector<AdaInBlock> pitch_;
  std::vector<AdaInBlock> energy_;
  Conv pitch_out_;
  Conv energy_out_;
};

}  // namespace gpk::speech
