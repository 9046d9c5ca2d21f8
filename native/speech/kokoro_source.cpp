#include "speech/kokoro_source.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/conv/conv.h"
#include "ops/creation/ramp.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/indexing/take.h"
#include "ops/manipulation/join.h"
#include "ops/manipulation/pad.h"
#include "ops/matmul/matmul.h"
#include "ops/reduction/scan.h"

namespace gpk::speech {
namespace {

constexpr const char* kOp = "kokoro";
constexpr double kAmplitude = 0.1;  // of a harmonic
constexpr double kNoise = 0.003;    // beside harmonics
constexpr double kVoiced = 10.0;    // Hz; below there is only noise
constexpr double kNoiseAlone = kAmplitude / 3;

// [1, frames] to [1, frames * count], every value `count` times.
Array repeated(const Array& x, std::int64_t count) {
  const std::int64_t frames = x.shape()[1];
  return ops::reshape(broadcast_to(expand_dims(x, {2}, kOp), {1, frames, count}, kOp),
                      {1, frames * count}, kOp);
}

}  // namespace

HarmonicSource::HarmonicSource(const KokoroWeights& weights, const IstftNetConfig& config)
    : scale_(config.samples_per_frame()),
      w_(weights.get("decoder.generator.m_source.l_linear.weight", {1, kKokoroHarmonics})),
      b_(weights.get("decoder.generator.m_source.l_linear.bias", {1})),
      harmonics_(expand_dims(ops::arange(kKokoroHarmonics, Scalar(1.0), Scalar(1.0),
                                         DType::kFloat32, weights.device()),
                             {1}, kOp)) {}

// In turns, modulo 1, then accumulated in float64: the sum of a long text has no digits to spare.
// What follows is in float32, in the model's order, since rounding shows in the phase.
Array HarmonicSource::phase_of_frames(const Array& pitch) const {
  const Array turns = ops::remainder(
      ops::divide(ops::multiply(pitch, harmonics_), Scalar(static_cast<double>(kKokoroSampleRate))),
      Scalar(1.0));
  ops::ScanOptions options;
  options.axis = 1;
  options.dtype = DType::kFloat64;
  const Array sum = ops::cast(ops::scan(ops::OpId::cumsum, turns, options), DType::kFloat32, kOp);
  return ops::multiply(ops::multiply(ops::multiply(sum, Scalar(2.0)), Scalar(std::numbers::pi)),
                       Scalar(static_cast<double>(scale_)));
}

// Linear between the middles of frames, constant at both ends. The sum is rounded once: a product
// of two floats is exact in float64.
Array HarmonicSource::phase_of_samples(const Array& phase) const {
  const std::int64_t frames = phase.shape()[1];
  const Array sample =
      ops::arange(frames * scale_, Scalar(0.5), Scalar(1.0), DType::kFloat32, phase.device());
  const auto step = static_cast<double>(static_cast<float>(1.0 / static_cast<double>(scale_)));
  const Array at =
      ops::maximum(ops::subtract(ops::multiply(sample, Scalar(step)), Scalar(0.5)), Scalar(0.0));
  const Array floor = ops::floor(at);
  const Array weight = ops::subtract(at, floor);
  const Array rest = ops::subtract(Scalar(1.0), weight);
  const Array first = ops::cast(floor, DType::kInt32, kOp);
  const Array second = ops::minimum(ops::add(first, Scalar(std::int64_t{1})), Scalar(frames - 1));
  const auto taken = [&](const Array& indices) {
    return ops::take(phase, indices, 1, ops::IndexMode::kClip, std::nullopt);
  };
  const auto wide = [](const Array& x) { return ops::cast(x, DType::kFloat64, kOp); };
  const Array later = ops::multiply(taken(second), weight);
  const Array sum = ops::add(ops::multiply(wide(taken(first)), wide(rest)), later);
  return ops::cast(sum, DType::kFloat32, kOp);
}

Array HarmonicSource::run(const Array& pitch, const SourceNoise& noise) const {
  const std::int64_t samples = pitch.shape()[1] * scale_;
  const Dims shape{kKokoroHarmonics, samples};
  if (noise.values && noise.values->shape() != Dims{samples, kKokoroHarmonics})
    throw InvalidArgument(cat("kokoro: noise has shape ", to_string(noise.values->shape()),
                              ", expected ", to_string(Dims{samples, kKokoroHarmonics})));
  const Array normal = noise.values
                           ? flipped(*noise.values)
                           : ops::random_normal({kOp, shape, DType::kFloat32, pitch.device(), {}},
                                                0.0, 1.0, noise.state);
  const Array voiced = ops::greater(repeated(pitch, scale_), Scalar(kVoiced));
  const Array factor = ops::where(voiced, Scalar(kNoise), Scalar(kNoiseAlone));
  const Array amplitude = ops::cast(factor, DType::kFloat32, kOp);
  Array sines =
      ops::multiply(ops::sin(phase_of_samples(phase_of_frames(pitch))), Scalar(kAmplitude));
  sines = ops::where(voiced, sines, Scalar(0.0));
  ops::add(sines, ops::multiply(normal, amplitude), &sines);
  Array merged = ops::matmul(w_, sines);  // [1, samples]
  ops::add(merged, b_, &merged);
  ops::tanh(merged, &merged);
  return merged;
}

ShortTransform::ShortTransform(const IstftNetConfig& config, Device device)
    : n_fft_(config.n_fft),
      hop_(config.hop),
      analysis_(Array::empty({n_fft_ + 2, 1, n_fft_}, DType::kFloat32, device, kOp)),
      synthesis_(analysis_),
      squares_(analysis_) {
  const std::int64_t bins = n_fft_ / 2 + 1;
  const auto size = static_cast<std::size_t>((n_fft_ + 2) * n_fft_);
  std::vector<float> analysis(size), synthesis(size), squares(static_cast<std::size_t>(n_fft_));
  for (std::int64_t n = 0; n < n_fft_; ++n) {
    const double turn = 2 * std::numbers::pi / static_cast<double>(n_fft_);
    const double window = 0.5 - 0.5 * std::cos(turn * static_cast<double>(n));
    squares[static_cast<std::size_t>(n)] = static_cast<float>(window * window);
    for (std::int64_t k = 0; k < bins; ++k) {
      const double angle = turn * static_cast<double>(k * n % n_fft_);
      const bool edge = k == 0 || k == bins - 1;
      const double weight = (edge ? 1.0 : 2.0) / static_cast<double>(n_fft_);
      const auto re = static_cast<std::size_t>(k * n_fft_ + n);
      const auto im = static_cast<std::size_t>((bins + k) * n_fft_ + n);
      analysis[re] = static_cast<float>(window * std::cos(angle));
      synthesis[re] = static_cast<float>(window * weight * std::cos(angle));
      // The sines of the first and the last bin are zero, whatever sin(pi) rounds to.
      analysis[im] = edge ? 0.0F : static_cast<float>(-window * std::sin(angle));
      synthesis[im] = edge ? 0.0F : static_cast<float>(-window * weight * std::sin(angle));
    }
  }
  analysis_ = device::from_host(analysis.data(), {n_fft_ + 2, 1, n_fft_}, DType::kFloat32, device);
  synthesis_ =
      device::from_host(synthesis.data(), {n_fft_ + 2, 1, n_fft_}, DType::kFloat32, device);
  squares_ = device::from_host(squares.data(), {1, 1, n_fft_}, DType::kFloat32, device);
}

Array ShortTransform::forward(const Array& x) const {
  const std::int64_t bins = n_fft_ / 2 + 1;
  const Array padded = ops::pad(x, {{0, 0}, {n_fft_ / 2, n_fft_ / 2}}, ops::PadMode::kReflect, {});
  ops::ConvOptions options;
  options.stride = {hop_};
  const Array spectrum =
      ops::conv1d(expand_dims(padded, {1}, kOp), analysis_, options, std::nullopt);
  const Array re = slice_axis(spectrum, 1, 0, bins, 1);
  // Where sines cancel, the sign of what is left depends on the order of a sum, and with it whether
  // an angle is pi or -pi. So in the first frame, which padding makes symmetric: zero. And plus
  // zero, since -0 counts as negative.
  const Array im = ops::add(slice_axis(spectrum, 1, bins, bins, 1), Scalar(0.0));
  ops::fill(slice_axis(im, 2, 0, 1, 1), Scalar(0.0), kOp);
  const Array parts[] = {ops::hypot(re, im), ops::atan2(im, re)};
  return ops::concat(parts, 1, {}, kOp);
}

Array ShortTransform::inverse(const Array& magnitude, const Array& phase) const {
  const Array parts[] = {ops::multiply(magnitude, ops::cos(phase)),
                         ops::multiply(magnitude, ops::sin(phase))};
  const Array spectrum = ops::concat(parts, 1, {}, kOp);
  ops::ConvOptions options;
  options.stride = {hop_};
  options.padding = {n_fft_ / 2};
  Array sum = ops::conv_transpose1d(spectrum, synthesis_, options, std::nullopt);
  const Array ones =
      ops::full({1, 1, spectrum.shape()[2]}, Scalar(1.0), DType::kFloat32, spectrum.device(), kOp);
  ops::divide(sum, ops::conv_transpose1d(ones, squares_, options, std::nullopt), &sum);
  return ops::reshape(sum, {-1}, kOp);
}

}  // namespace gpk::speech
