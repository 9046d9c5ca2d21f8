// What the networks of Kokoro are made of. Sequences are [1, channels, length] between convolutions
// and [1, length, channels] between linear and recurrent layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/array.h"
#include "ops/matmul/linear.h"
#include "ops/recurrent/layer.h"
#include "speech/kokoro_weights.h"

namespace gpk::speech {

// x w^T + b.
struct Linear {
  Linear(const KokoroWeights& weights, const std::string& name, const Dims& shape);
  [[nodiscard]] Array run(const Array& x, const ops::LinearOptions& options = {}) const;

  Array w;
  Array b;
};

struct LayerNorm {
  [[nodiscard]] Array run(const Array& x) const;

  Array weight;
  Array bias;
  double eps;
};

// A convolution, its weight norm folded, in the dtype of its input.
struct Conv {
  struct Shape {
    std::int64_t out = -1;
    std::int64_t in = -1;
    std::int64_t taps = 1;
  };
  struct Steps {
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t dilation = 1;
  };
  Conv(const KokoroWeights& weights, const std::string& name, Shape shape, Steps taken,
       DType dtype);
  [[nodiscard]] Array run(const Array& x, const std::optional<Array>& residual = {}) const;

  Array w;                 // [out, in, taps]
  std::optional<Array> b;  // where the checkpoint has one
  Steps steps;
};

// A transposed convolution; groups > 1: one channel each.
struct ConvTranspose {
  ConvTranspose(const KokoroWeights& weights, const std::string& name, const Dims& shape,
                std::int64_t step, std::int64_t pad, DType dtype);
  [[nodiscard]] Array run(const Array& x) const;

  Array w;  // [in, out / groups, taps]
  Array b;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t groups = 1;
  std::int64_t output_padding = 0;
};

// An LSTM in both directions: [1, steps, in] to [1, steps, 2 hidden].
struct BiLstm {
  BiLstm(const KokoroWeights& weights, const std::string& name, std::int64_t in,
         std::int64_t hidden);
  [[nodiscard]] Array run(const Array& x) const;

  ops::RecurrentLayer layer;
};

// Scales and shifts that a style gives to norms: all of a network by one linear layer.
class StyleBank {
 public:
  struct Place {
    std::int64_t first = 0;
    std::int64_t channels = 0;
  };

  explicit StyleBank(std::int64_t style_dim) : style_dim_(style_dim) {}
  // The layer "<name>.fc", [2 channels, style] or, of -1 channels, of any number; `offset` is added
  // to the scales. The norm's own weight and bias, where the checkpoint has them, are folded in.
  Place add(const KokoroWeights& weights, const std::string& name, std::int64_t channels,
            double offset = 0.0);
  // After the last add().
  void finish();
  // style is [1, style_dim].
  [[nodiscard]] Array run(const Array& style) const;

 private:
  std::int64_t style_dim_;
  std::int64_t size_ = 0;
  std::vector<Array> weights_;
  std::vector<Array> biases_;
};

// Of what StyleBank::run gave: [1, channels] each.
Array style_scale(const Array& styles, StyleBank::Place place);
Array style_shift(const Array& styles, StyleBank::Place place);
// instancenorm(x) (1 + scale) + shift.
Array adain(const Array& x, const Array& styles, StyleBank::Place place);

// Two convolutions with adaptive norms and a shortcut, optionally at twice the length.
class AdaInBlock {
 public:
  AdaInBlock(const KokoroWeights& weights, const std::string& name, bool upsample, StyleBank& bank,
             DType dtype);
  [[nodiscard]] Array run(const Array& x, const Array& styles) const;
  [[nodiscard]] std::int64_t in_channels() const { return conv1_.w.shape()[1]; }
  [[nodiscard]] std::int64_t out_channels() const { return conv1_.w.shape()[0]; }

 private:
  Conv conv1_;
  Conv conv2_;
  std::optional<Conv> shortcut_;
  std::optional<ConvTranspose> pool_;
  StyleBank::Place norm1_;
  StyleBank::Place norm2_;
};

// Dilated convolutions with adaptive norms and snake activations, each pair with a residual.
class SnakeBlock {
 public:
  SnakeBlock(const KokoroWeights& weights, const std::string& name, std::int64_t channels,
             std::int64_t taps, const std::vector<std::int64_t>& dilations, StyleBank& bank,
             DType dtype);
  [[nodiscard]] Array run(const Array& x, const Array& styles) const;

 private:
  struct Half {
    Conv conv;
    StyleBank::Place norm;
    Array alpha;  // [1, channels, 1]
  };
  static Half half(const KokoroWeights& weights, const std::string& name, int which, int index,
                   Conv::Shape shape, std::int64_t dilation, StyleBank& bank, DType dtype);
  std::vector<Half> first_;
  std::vector<Half> second_;
};

// The last two axes exchanged, as a view.
Array flipped(const Array& x);

}  // namespace gpk::speech
