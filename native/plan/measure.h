// Times candidates against each other on the current stream.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "core/device.h"

namespace gpk::plan {

struct Trial {
  double predicted_us = 0.0;
  // Called with run 0, 1, ..., so that runs can rotate over data.
  std::function<void(std::size_t run)> launch;
  std::function<bool()> usable;  // called after the first launch; empty: always
  double us = 0.0;               // measured; the largest double where not usable
};

// Launches every candidate once, then times graphs of at least `least_runs` launches of each,
// interleaved over several rounds; the best round counts. Launch overhead is not included.
void measure(std::span<Trial> trials, std::size_t least_runs, Device device);

// Drops candidates not worth measuring: those predicted to be far slower than the first, and all
// beyond a dozen. `plans` is sorted; those with exempt(plan) stay.
template <class Plans, class Exempt>
void keep_promising(Plans& plans, const Exempt& exempt) {
  constexpr std::size_t kMaxCandidates = 12;
  constexpr float kHopeless = 2.5f;
  float best_us = 0.0f;
  std::size_t kept = 0;
  std::erase_if(plans, [&](const auto& plan) {
    if (!exempt(plan)) {
      if (best_us == 0.0f) best_us = plan.predicted_us;
      if (kept >= kMaxCandidates || plan.predicted_us > kHopeless * best_us) return true;
    }
    ++kept;
    return false;
  });
}

}  // namespace gpk::plan
