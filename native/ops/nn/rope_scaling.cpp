#include "ops/nn/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/text.h"

namespace gpk::ops {
namespace {

constexpr std::string_view kKindNames[] = {"default", "linear", "ntk",     "dynamic",
                                           "yarn",    "llama3", "longrope"};

constexpr std::int64_t kMaxDim = 65536;

struct Spectrum {
  std::int64_t dim;
  double base;
  const RopeScaling& scaling;
  const char* op;

  // Of the scaling, which must have it.
  [[nodiscard]] double needed(double value, const char* key) const {
    if (value > 0.0 && std::isfinite(value)) return value;
    throw InvalidArgument(
        cat(op, ": ", key, " of the ", kKindNames[static_cast<std::size_t>(scaling.kind)],
            " scaling is ", value == 0.0 ? "missing" : cat(value), ", expected a number above 0"));
  }
  [[nodiscard]] double trained() const {
    return needed(scaling.original_max_positions, "original_max_position_embeddings");
  }
  [[nodiscard]] double factor() const { return needed(scaling.factor, "factor"); }

  [[nodiscard]] std::vector<double> plain(double with_base) const {
    std::vector<double> result(static_cast<std::size_t>(dim / 2));
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = std::pow(with_base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    return result;
  }
  // The base whose slowest pair is `stretch` times slower.
  [[nodiscard]] std::vector<double> wider(double stretch) const {
    const auto pairs = static_cast<double>(std::max<std::int64_t>(dim - 2, 1));
    return plain(base * std::pow(stretch, static_cast<double>(dim) / pairs));
  }

  [[nodiscard]] std::vector<double> llama3() const {
    std::vector<double> result = plain(base);
    const double low = needed(scaling.low_freq_factor, "low_freq_factor");
    const double high = needed(scaling.high_freq_factor, "high_freq_factor");
    for (double& f : result) {
      const double turns = trained() * f / (2.0 * std::numbers::pi);  // over the trained length
      const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      f = (1.0 - smooth) * f / factor() + smooth * f;
    }
    return result;
  }

  // The pair that makes so many turns over the trained length.
  [[nodiscard]] double pair_of(double turns) const {
    return static_cast<double>(dim) * std::log(trained() / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(base));
  }

  [[nodiscard]] RopeSpectrum yarn() const {
    RopeSpectrum result{plain(base), 1.0};
    double low = pair_of(needed(scaling.beta_fast, "beta_fast"));
    double high = pair_of(needed(scaling.beta_slow, "beta_slow"));
    if (scaling.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(dim - 1));
    for (std::size_t i = 0; i < result.frequencies.size(); ++i) {
      const double ramp =
          std::clamp((static_cast<double>(i) - low) / std::max(high - low, 1e-3), 0.0, 1.0);
      double& f = result.frequencies[i];
      f = f / factor() * ramp + f * (1.0 - ramp);
    }
    const auto magnitude = [&](double scale) {
      return factor() <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor()) + 1.0;
    };
    if (scaling.attention_factor > 0.0)
      result.factor = scaling.attention_factor;
    else if (scaling.mscale > 0.0 && scaling.mscale_all_dim > 0.0)
      result.factor = magnitude(scaling.mscale) / magnitude(scaling.mscale_all_dim);
    else
      result.factor = magnitude(1.0);
    return result;
  }

  [[nodiscard]] RopeSpectrum longrope(std::int64_t max_positions) const {
    RopeSpectrum result{plain(base), 1.0};
    const double longest = max_positions > 0 ? static_cast<double>(max_positions) : trained();
    const bool is_long = longest > trained();
    const std::vector<double>& factors = is_long ? scaling.long_factor : scaling.short_factor;
    if (factors.size() != result.frequencies.size())
      throw InvalidArgument(cat(op, ": ", is_long ? "long_factor" : "short_factor",
                                " of the longrope scaling has ", factors.size(),
                                " numbers, expected ", result.frequencies.size()));
    for (std::size_t i = 0; i < factors.size(); ++i) result.frequencies[i] /= factors[i];
    if (scaling.attention_factor > 0.0)
      result.factor = scaling.attention_factor;
    else if (scaling.factor == 0.0)
      throw InvalidArgument(cat(op,
                                ": factor of the longrope scaling is missing, expected "
                                "max_position_embeddings / original_max_position_embeddings of "
                                "config.json, or attention_factor"));
    else if (factor() > 1.0)
      result.factor = std::sqrt(1.0 + std::log(factor()) / std::log(trained()));
    return result;
  }
};

}  // namespace

RopeKind rope_kind_named(std::string_view text, const char* op) {
  if (text == "su") return RopeKind::kLongrope;
  const auto* const found = std::find(std::begin(kKindNames), std::end(kKindNames), text);
  if (found == std::end(kKindNames))
    throw InvalidArgument(cat(op, ": the scaling's rope_type is '", shorten(text, 80),
                              "', expected one of ", join(kKindNames, ", ")));
  return static_cast<RopeKind>(found - std::begin(kKindNames));
}

RopeSpectrum rope_spectrum(std::int64_t dim, double base, const RopeScaling& scaling,
                           std::int64_t max_positions, const char* op) {
  if (dim < 2 || dim % 2 != 0 || dim > kMaxDim)
    throw InvalidArgument(
        cat(op, ": dim is ", dim, ", expected an even number from 2 to ", kMaxDim));
  if (!(base > 0.0))
    throw InvalidArgument(cat(op, ": base is ", base, ", expected a number above 0"));
  const Spectrum s{dim, base, scaling, op};
  switch (scaling.kind) {
    case RopeKind::kDefault: return {s.plain(base), 1.0};
    case RopeKind::kLinear: {
      RopeSpectrum result{s.plain(base), 1.0};
      for (double& f : result.frequencies) f /= s.factor();
      return result;
    }
    case RopeKind::kNtk: return {s.wider(s.factor()), 1.0};
    case RopeKind::kDynamic: {
      const double grown = std::max(static_cast<double>(max_positions), s.trained()) / s.trained();
      return {s.wider(s.factor() * grown - (s.factor() - 1.0)), 1.0};
    }
    case RopeKind::kLlama3: return {s.llama3(), 1.0};
    case RopeKind::kYarn: return s.yarn();
    case RopeKind::kLongrope: return s.longrope(max_positions);
  }
  return {};
}

}  // namespace gpk::ops
