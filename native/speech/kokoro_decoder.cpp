#include "speech/kokoro_decoder.h"

#include <functional>
#include <numeric>

#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/manipulation/join.h"
#include "ops/manipulation/pad.h"

namespace gpk::speech {
namespace {

constexpr const char* kOp = "kokoro";
constexpr const char* kGenerator = "decoder.generator.";
constexpr double kUpSlope = 0.1;     // of leaky_relu in front of transposed convolutions
constexpr double kPostSlope = 0.01;  // and of the last convolution
constexpr int kNumDecoderBlocks = 4;

// Of the pitch's spectrum to the length of stage `index`: the rates of the stages after it.
Conv noise_conv_of(const KokoroWeights& weights, const IstftNetConfig& config, std::size_t index,
                   std::int64_t channels, DType dtype) {
  const std::string name = cat(kGenerator, "noise_convs.", index);
  const auto rest = config.upsample_rates.begin() + static_cast<std::ptrdiff_t>(index) + 1;
  if (rest == config.upsample_rates.end())
    return Conv(weights, name, {channels, config.n_fft + 2, 1}, {}, dtype);
  const std::int64_t stride =
      std::accumulate(rest, config.upsample_rates.end(), std::int64_t{1}, std::multiplies<>());
  return Conv(weights, name, {channels, config.n_fft + 2, 2 * stride},
              {stride, (stride + 1) / 2, 1}, dtype);
}

Array traced(const KokoroTrace& trace, std::string_view stage, Array value) {
  if (trace) trace(stage, value);
  return value;
}

}  // namespace

KokoroGenerator::KokoroGenerator(const KokoroWeights& weights, const KokoroConfig& config,
                                 StyleBank& bank, DType dtype)
    : dtype_(dtype),
      bins_(config.istftnet.n_fft / 2 + 1),
      source_(weights, config.istftnet),
      transform_(config.istftnet, weights.device()),
      post_(weights, cat(kGenerator, "conv_post"),
            {config.istftnet.n_fft + 2,
             config.istftnet.upsample_initial_channel >> config.istftnet.upsample_rates.size(), 7},
            {1, 3, 1}, dtype) {
  const IstftNetConfig& net = config.istftnet;
  const std::vector<std::int64_t> noise_dilations = {1, 3, 5};
  for (std::size_t i = 0; i < net.upsample_rates.size(); ++i) {
    const std::int64_t channels = net.upsample_initial_channel >> (i + 1);
    const std::int64_t taps = net.upsample_kernel_sizes[i];
    const std::int64_t rate = net.upsample_rates[i];
    const bool last = i + 1 == net.upsample_rates.size();
    Stage stage{ConvTranspose(weights, cat(kGenerator, "ups.", i), {2 * channels, channels, taps},
                              rate, (taps - rate) / 2, dtype),
                noise_conv_of(weights, net, i, channels, dtype),
                SnakeBlock(weights, cat(kGenerator, "noise_res.", i), channels, last ? 11 : 7,
                           noise_dilations, bank, dtype),
                {}};
    for (std::size_t j = 0; j < net.resblock_kernel_sizes.size(); ++j)
      stage.blocks.emplace_back(
          weights, cat(kGenerator, "resblocks.", i * net.resblock_kernel_sizes.size() + j),
          channels, net.resblock_kernel_sizes[j], net.resblock_dilation_sizes[j], bank, dtype);
    stages_.push_back(std::move(stage));
  }
}

Array KokoroGenerator::run_stage(const Stage& stage, const Array& x, const Array& harmonics,
                                 const Array& styles, bool last) const {
  const Array noise = stage.noise_block.run(stage.noise_conv.run(harmonics), styles);
  Array y = stage.up.run(ops::leaky_relu(x, Scalar(kUpSlope)));
  // The inverse STFT takes one frame more than there are hops.
  if (last) y = ops::pad(y, {{0, 0}, {0, 0}, {1, 0}}, ops::PadMode::kReflect, {});
  ops::add(y, noise, &y);
  Array sum = stage.blocks.front().run(y, styles);
  for (std::size_t j = 1; j < stage.blocks.size(); ++j)
    ops::add(sum, stage.blocks[j].run(y, styles), &sum);
  ops::divide(sum, Scalar(static_cast<double>(stage.blocks.size())), &sum);
  return sum;
}

Array KokoroGenerator::run(const Array& x, const Array& styles, const Array& pitch,
                           const SourceNoise& noise, const KokoroTrace& trace) const {
  const Array source = traced(trace, "source", source_.run(pitch, noise));
  const Array harmonics =
      ops::cast(traced(trace, "harmonics", transform_.forward(source)), dtype_, kOp);
  Array y = x;
  for (std::size_t i = 0; i < stages_.size(); ++i)
    y = traced(trace, cat("stage.", i),
               run_stage(stages_[i], y, harmonics, styles, i + 1 == stages_.size()));
  const Array spectrum =
      ops::cast(post_.run(ops::leaky_relu(y, Scalar(kPostSlope))), DType::kFloat32, kOp);
  if (trace) trace("spectrum", spectrum);
  const Array magnitude = ops::exp(slice_axis(spectrum, 1, 0, bins_, 1));
  const Array phase = ops::sin(slice_axis(spectrum, 1, bins_, bins_, 1));
  return transform_.inverse(magnitude, phase);
}

KokoroDecoder::KokoroDecoder(const KokoroWeights& weights, const KokoroConfig& config, DType dtype)
    : dtype_(dtype),
      bank_(config.style_dim),
      encode_(weights, "decoder.encode", false, bank_, dtype),
      pitch_conv_(weights, "decoder.F0_conv", {1, 1, 3}, {2, 1, 1}, dtype),
      energy_conv_(weights, "decoder.N_conv", {1, 1, 3}, {2, 1, 1}, dtype),
      text_conv_(weights, "decoder.asr_res.0", {-1, config.hidden_dim, 1}, {}, dtype),
      generator_(weights, config, bank_, dtype) {
  for (int i = 0; i < kNumDecoderBlocks; ++i)
    decode_.emplace_back(weights, cat("decoder.decode.", i), i + 1 == kNumDecoderBlocks, bank_,
                         dtype);
  bank_.finish();
}

Array KokoroDecoder::run(const Array& text, const Prosody& prosody, const Array& style,
                         const SourceNoise& noise, const KokoroTrace& trace) const {
  const auto as_input = [&](const Array& x) { return ops::cast(x, dtype_, kOp); };
  const Array styles = bank_.run(style);
  const Array asr = as_input(text);
  const Array pitch = pitch_conv_.run(expand_dims(as_input(prosody.pitch), {1}, kOp));
  const Array energy = energy_conv_.run(expand_dims(as_input(prosody.energy), {1}, kOp));
  const Array start[] = {asr, pitch, energy};
  Array x = encode_.run(ops::concat(start, 1, {}, kOp), styles);
  if (trace) trace("encode", x);
  const Array residual = text_conv_.run(asr);
  for (const AdaInBlock& block : decode_) {
    const Array parts[] = {x, residual, pitch, energy};
    x = block.run(ops::concat(parts, 1, {}, kOp), styles);
  }
  if (trace) trace("decode", x);
  return generator_.run(x, styles, prosody.pitch, noise, trace);
}

}  // namespace gpk::speech
