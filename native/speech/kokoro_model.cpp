#include "speech/kokoro_model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"
#include "ops/indexing/take.h"

namespace gpk::speech {
namespace {

constexpr const char* kOp = "kokoro";

DType checked(DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16)
    throw InvalidArgument(Error::Kind::kType, cat("kokoro: dtype is ", name(dtype),
                                                  ", expected float32, float16 or bfloat16"));
  return dtype;
}

Array upload(std::span<const std::int64_t> numbers, Device device) {
  return device::from_host(numbers.data(), {static_cast<std::int64_t>(numbers.size())},
                           DType::kInt64, device);
}

}  // namespace

KokoroModel::KokoroModel(const KokoroConfig& config, const KokoroWeights& weights, DType dtype)
    : config_((check_kokoro_config(config), config)),
      dtype_(checked(dtype)),
      device_(weights.device()),
      num_parameters_(weights.num_elems()),
      bert_(weights, config.plbert, config.n_token),
      bert_encoder_(weights, "bert_encoder", {config.hidden_dim, config.plbert.hidden_size}),
      text_encoder_(weights, config),
      predictor_(weights, config),
      decoder_(weights, config, dtype) {}

void KokoroModel::check(std::span<const std::int64_t> tokens, const Array& style,
                        const KokoroOptions& options) const {
  const auto limit = static_cast<std::size_t>(config_.plbert.max_positions);
  if (tokens.empty() || tokens.size() > limit)
    throw InvalidArgument(
        cat("kokoro: there are ", tokens.size(), " tokens, expected 1 to ", limit));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= config_.n_token)
      throw InvalidArgument(
          cat("kokoro: token ", i, " is ", tokens[i], ", expected 0 to ", config_.n_token - 1));
  if (style.shape() != Dims{2 * config_.style_dim} || style.dtype() != DType::kFloat32)
    throw InvalidArgument(cat("kokoro: style is ", name(style.dtype()), " of shape ",
                              to_string(style.shape()), ", expected float32 of shape (",
                              2 * config_.style_dim, ",)"));
  if (style.device() != device_)
    throw InvalidArgument(cat("kokoro: style is on ", to_string(style.device()), ", the model on ",
                              to_string(device_)));
  const auto& noise = options.noise.values;
  if (noise && (noise->device() != device_ || noise->dtype() != DType::kFloat32))
    throw InvalidArgument(cat("kokoro: noise is ", name(noise->dtype()), " on ",
                              to_string(noise->device()), ", expected float32 on ",
                              to_string(device_)));
  if (!std::isfinite(options.speed) || options.speed <= 0)
    throw InvalidArgument(cat("kokoro: speed is ", options.speed, ", expected a number above 0"));
}

void KokoroModel::replace_curve(Array& predicted, const std::optional<Array>& given,
                                const char* what) const {
  if (!given) return;
  const Dims expected{predicted.shape()[1]};
  if (given->shape() != expected || given->dtype() != DType::kFloat32 || given->device() != device_)
    throw InvalidArgument(cat("kokoro: ", what, " is ", name(given->dtype()), " of shape ",
                              to_string(given->shape()), " on ", to_string(given->device()),
                              ", expected float32 of shape ", to_string(expected), " on ",
                              to_string(device_)));
  predicted = expand_dims(*given, {0}, kOp);
}

std::vector<std::int64_t> KokoroModel::frames_of(const Array& durations,
                                                 const KokoroOptions& options) const {
  // At a low speed the sum could outgrow memory.
  constexpr std::int64_t kMaxFrames = std::int64_t{1} << 20;
  const auto count = static_cast<std::size_t>(durations.size());
  std::vector<std::int64_t> frames = options.durations;
  if (!frames.empty() && frames.size() != count)
    throw InvalidArgument(cat("kokoro: there are ", frames.size(), " durations, expected ", count,
                              ", one for each token"));
  if (frames.empty()) {
    std::vector<float> real(count);
    device::to_host(durations, real.data());
    for (const float value : real) {
      const float scaled = std::rint(value / static_cast<float>(options.speed));  // halves to even
      const bool fits = scaled <= static_cast<float>(kMaxFrames);                 // not NaN
      frames.push_back(fits ? std::max<std::int64_t>(1, static_cast<std::int64_t>(scaled)) : -1);
    }
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    total += frames[i];
    if (frames[i] < 1 || frames[i] > kMaxFrames || total > kMaxFrames)
      throw InvalidArgument(cat("kokoro: at speed ", options.speed, " token ", i,
                                " would end after ", "more than ", kMaxFrames,
                                " frames, or has a duration below 1"));
  }
  return frames;
}

KokoroSpeech KokoroModel::run(std::span<const std::int64_t> tokens, const Array& style,
                              const KokoroOptions& options) const {
  check(tokens, style, options);
  const auto traced = [&](const char* stage, Array value) {
    if (options.trace) options.trace(stage, value);
    return value;
  };
  const Array both = expand_dims(style, {0}, kOp);
  const Array voice_style = slice_axis(both, 1, 0, config_.style_dim, 1);
  const Array prosody_style = slice_axis(both, 1, config_.style_dim, config_.style_dim, 1);
  const Array ids = upload(tokens, device_);

  const Array bert = traced("bert", bert_.run(ids));
  const Array encoded_bert = traced("bert_encoder", bert_encoder_.run(bert));
  const Array styles = predictor_.styles(prosody_style);
  const Array encoded =
      traced("duration_encoder", predictor_.encode(encoded_bert, prosody_style, styles));
  const Array durations = traced("duration", predictor_.durations(encoded));
  const Array text = traced("text_encoder", text_encoder_.run(ids));

  const std::vector<std::int64_t> frames = frames_of(durations, options);
  std::vector<std::int64_t> token_of_frame;
  for (std::size_t i = 0; i < frames.size(); ++i)
    token_of_frame.insert(token_of_frame.end(), static_cast<std::size_t>(frames[i]),
                          static_cast<std::int64_t>(i));
  const Array alignment = upload(token_of_frame, device_);
  const auto aligned = [&](const Array& x) {
    return ops::take(x, alignment, 1, ops::IndexMode::kClip, std::nullopt);
  };
  Prosody prosody = predictor_.prosody(aligned(encoded), styles);
  traced("pitch", prosody.pitch);
  traced("energy", prosody.energy);
  replace_curve(prosody.pitch, options.pitch, "pitch");
  replace_curve(prosody.energy, options.energy, "energy");
  const Array samples =
      decoder_.run(flipped(aligned(text)), prosody, voice_style, options.noise, options.trace);
  return {samples, frames};
}

}  // namespace gpk::speech
