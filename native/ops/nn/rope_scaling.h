// Frequencies of rotary position embeddings, and how models stretch them to longer texts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gpk::ops {

enum class RopeKind : std::uint8_t { kDefault, kLinear, kNtk, kDynamic, kYarn, kLlama3, kLongrope };

// "default", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope" or its old name "su"; throws
// InvalidArgument.
RopeKind rope_kind_named(std::string_view text, const char* op);

// The "rope_scaling" of a config.json. A number that is 0 was not given.
struct RopeScaling {
  RopeKind kind = RopeKind::kDefault;
  // longrope: max_position_embeddings over original_max_positions, whatever config.json has.
  double factor = 0.0;
  double original_max_positions = 0.0;
  double low_freq_factor = 0.0;
  double high_freq_factor = 0.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  // yarn: the pairs where its ramp begins and ends are whole numbers
  double attention_factor = 0.0;
  double mscale = 0.0;
  double mscale_all_dim = 0.0;
  std::vector<double> short_factor;
  std::vector<double> long_factor;
};

struct RopeSpectrum {
  std::vector<double> frequencies;  // angle per position of each of dim / 2 pairs
  double factor = 1.0;              // of cosines and sines
};

// `max_positions` is the longest sequence, which the angles of dynamic and longrope depend on; 0:
// the trained length. Throws InvalidArgument where the scaling lacks a number that its kind needs.
RopeSpectrum rope_spectrum(std::int64_t dim, double base, const RopeScaling& scaling,
                           std::int64_t max_positions, const char* op);

}  // namespace gpk::ops
