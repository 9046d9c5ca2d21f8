#include "speech/kokoro_layers.h"

#include <utility>

#include "base/text.h"
#include "core/view.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/manipulation/axes.h"
#include "ops/manipulation/join.h"
#include "ops/nn/norm.h"

namespace gpk::speech {
namespace {

constexpr const char* kOp = "kokoro";
constexpr double kNormEps = 1e-5;
constexpr double kSlope = 0.2;  // of leaky_relu in AdaInBlock

Array cast(const Array& x, DType dtype) { return ops::cast(x, dtype, kOp); }

// Every element twice along the last axis.
Array doubled(const Array& x) {
  const Dims& shape = x.shape();
  const Array wide = broadcast_to(expand_dims(x, {3}, kOp), {shape[0], shape[1], shape[2], 2}, kOp);
  return ops::reshape(wide, {shape[0], shape[1], 2 * shape[2]}, kOp);
}

}  // namespace

Array flipped(const Array& x) { return ops::swapaxes(x, -1, -2, kOp); }

Linear::Linear(const KokoroWeights& weights, const std::string& name, const Dims& shape)
    : w(weights.get(name + ".weight", shape)), b(weights.get(name + ".bias", {w.shape()[0]})) {}

Array Linear::run(const Array& x, const ops::LinearOptions& options) const {
  ops::LinearOptions all = options;
  all.bias = b;
  return ops::linear(x, w, all, kOp);
}

Array LayerNorm::run(const Array& x) const {
  return ops::layernorm(x, {weight, bias, eps}, std::nullopt);
}

Conv::Conv(const KokoroWeights& weights, const std::string& name, Shape shape, Steps taken,
           DType dtype)
    : w(cast(weights.conv(name, {shape.out, shape.in, shape.taps}), dtype)), steps(taken) {
  if (weights.contains(name + ".bias"))
    b = cast(weights.get(name + ".bias", {w.shape()[0]}), dtype);
}

Array Conv::run(const Array& x, const std::optional<Array>& residual) const {
  ops::ConvOptions options;
  options.bias = b;
  options.residual = residual;
  options.stride = {steps.stride};
  options.padding = {steps.padding};
  options.dilation = {steps.dilation};
  return ops::conv1d(x, w, options, std::nullopt);
}

ConvTranspose::ConvTranspose(const KokoroWeights& weights, const std::string& name,
                             const Dims& shape, std::int64_t step, std::int64_t pad, DType dtype)
    : w(cast(weights.conv(name, shape), dtype)),
      b(cast(weights.get(name + ".bias", {-1}), dtype)),
      stride(step),
      padding(pad) {}

Array ConvTranspose::run(const Array& x) const {
  ops::ConvOptions options;
  options.bias = b;
  options.stride = {stride};
  options.padding = {padding};
  options.groups = groups;
  options.output_padding = output_padding;
  return ops::conv_transpose1d(x, w, options, std::nullopt);
}

BiLstm::BiLstm(const KokoroWeights& weights, const std::string& name, std::int64_t in,
               std::int64_t hidden) {
  for (const char* direction : {"", "_reverse"}) {
    const auto get = [&](const char* part, const Dims& shape) {
      return weights.get(cat(name, ".", part, "_l0", direction), shape);
    };
    layer.directions.push_back({get("weight_ih", {4 * hidden, in}),
                                get("weight_hh", {4 * hidden, hidden}),
                                get("bias_ih", {4 * hidden}), get("bias_hh", {4 * hidden})});
  }
}

Array BiLstm::run(const Array& x) const {
  return ops::run_recurrent(layer, x, std::nullopt, std::nullopt, std::nullopt,
                            "lstm_bidirectional")
      .out;
}

StyleBank::Place StyleBank::add(const KokoroWeights& weights, const std::string& name,
                                std::int64_t channels, double offset) {
  Array w = weights.get(name + ".fc.weight", {channels < 0 ? -1 : 2 * channels, style_dim_});
  Array b = weights.get(name + ".fc.bias", {w.shape()[0]});
  channels = w.shape()[0] / 2;
  const auto half = [&](const Array& x, std::int64_t which) {
    return slice_axis(x, 0, which * channels, channels, 1);
  };
  Array scale = ops::add(half(b, 0), Scalar(offset));
  Array shift = half(b, 1);
  if (weights.contains(name + ".norm.weight")) {
    // (1 + s) (v x + u) + t, where s and t are linear in the style.
    const Array v = weights.get(name + ".norm.weight", {channels});
    const Array u = weights.get(name + ".norm.bias", {channels});
    const Array v1 = expand_dims(v, {1}, kOp);
    const Array u1 = expand_dims(u, {1}, kOp);
    shift = ops::add(shift, ops::multiply(u, ops::add(scale, Scalar(1.0))));
    scale = ops::subtract(ops::multiply(v, ops::add(scale, Scalar(1.0))), Scalar(1.0));
    const Array parts[] = {ops::multiply(half(w, 0), v1),
                           ops::add(half(w, 1), ops::multiply(half(w, 0), u1))};
    w = ops::concat(parts, 0, {}, kOp);
  }
  const Array bias[] = {scale, shift};
  weights_.push_back(w);
  biases_.push_back(ops::concat(bias, 0, {}, kOp));
  const Place place{size_, channels};
  size_ += 2 * channels;
  return place;
}

void StyleBank::finish() {
  weights_ = {ops::concat(weights_, 0, {}, kOp)};
  biases_ = {ops::concat(biases_, 0, {}, kOp)};
}

Array StyleBank::run(const Array& style) const {
  ops::LinearOptions options;
  options.bias = biases_.front();
  return ops::linear(style, weights_.front(), options, kOp);
}

Array style_scale(const Array& styles, StyleBank::Place place) {
  return slice_axis(styles, 1, place.first, place.channels, 1);
}
Array style_shift(const Array& styles, StyleBank::Place place) {
  return slice_axis(styles, 1, place.first + place.channels, place.channels, 1);
}
Array adain(const Array& x, const Array& styles, StyleBank::Place place) {
  return ops::adain(x, style_scale(styles, place), style_shift(styles, place), kNormEps,
                    std::nullopt);
}

AdaInBlock::AdaInBlock(const KokoroWeights& weights, const std::string& name, bool upsample,
                       StyleBank& bank, DType dtype)
    : conv1_(weights, name + ".conv1", {-1, -1, 3}, {1, 1, 1}, dtype),
      conv2_(weights, name + ".conv2", {out_channels(), out_channels(), 3}, {1, 1, 1}, dtype) {
  norm1_ = bank.add(weights, name + ".norm1", in_channels());
  norm2_ = bank.add(weights, name + ".norm2", out_channels());
  if (in_channels() != out_channels())
    shortcut_.emplace(weights, name + ".conv1x1", Conv::Shape{out_channels(), in_channels(), 1},
                      Conv::Steps{}, dtype);
  if (!upsample) return;
  pool_.emplace(weights, name + ".pool", Dims{in_channels(), 1, 3}, 2, 1, dtype);
  pool_->groups = in_channels();
  pool_->output_padding = 1;
}

Array AdaInBlock::run(const Array& x, const Array& styles) const {
  Array shortcut = pool_ ? doubled(x) : x;
  if (shortcut_) shortcut = shortcut_->run(shortcut);
  Array y = adain(x, styles, norm1_);
  ops::leaky_relu(y, Scalar(kSlope), &y);
  if (pool_) y = pool_->run(y);
  y = adain(conv1_.run(y), styles, norm2_);
  ops::leaky_relu(y, Scalar(kSlope), &y);
  y = conv2_.run(y, shortcut);
  constexpr double kHalfRoot = 0.70710678118654752;
  ops::multiply(y, Scalar(kHalfRoot), &y);
  return y;
}

SnakeBlock::SnakeBlock(const KokoroWeights& weights, const std::string& name, std::int64_t channels,
                       std::int64_t taps, const std::vector<std::int64_t>& dilations,
                       StyleBank& bank, DType dtype) {
  const Conv::Shape shape{channels, channels, taps};
  for (int i = 0; i < static_cast<int>(dilations.size()); ++i) {
    const std::int64_t dilation = dilations[static_cast<std::size_t>(i)];
    first_.push_back(half(weights, name, 1, i, shape, dilation, bank, dtype));
    second_.push_back(half(weights, name, 2, i, shape, 1, bank, dtype));
  }
}

SnakeBlock::Half SnakeBlock::half(const KokoroWeights& weights, const std::string& name, int which,
                                  int index, Conv::Shape shape, std::int64_t dilation,
                                  StyleBank& bank, DType dtype) {
  const auto part = [&](const char* what) { return cat(name, ".", what, which, ".", index); };
  const std::int64_t padding = (shape.taps - 1) * dilation / 2;
  return {Conv(weights, part("convs"), shape, {1, padding, dilation}, dtype),
          bank.add(weights, part("adain"), shape.out),
          cast(weights.get(part("alpha"), {1, shape.out, 1}), dtype)};
}

Array SnakeBlock::run(const Array& x, const Array& styles) const {
  const auto activated = [&](const Array& y, const Half& half) {
    Array z = adain(y, styles, half.norm);
    ops::snake(z, half.alpha, &z);
    return z;
  };
  Array sum = x;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    const Array y = first_[i].conv.run(activated(sum, first_[i]));
    sum = second_[i].conv.run(activated(y, second_[i]), sum);
  }
  return sum;
}

}  // namespace gpk::speech
