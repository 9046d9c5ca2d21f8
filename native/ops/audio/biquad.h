// Second-order recursive filters.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// y[i] = b0 x[i] + s1; s1 = b1 x[i] - a1 y[i] + s2; s2 = b2 x[i] - a2 y[i], in double.
struct BiquadRequest {
  const char* name = "biquad";  // of the public function
  double b0 = 1.0, b1 = 0.0, b2 = 0.0;
  double a1 = 0.0, a2 = 0.0;
};

struct BiquadResult {
  Array out;    // as x
  Array state;  // (s1, s2) after the last sample, float64
};

// Along the last axis of x; state [..., 2] is float64, 0 where not given. Throws InvalidArgument.
BiquadResult audio_biquad(const Array& x, const BiquadRequest& request,
                          const std::optional<Array>& state, const std::optional<Array>& out);

}  // namespace gpk::ops
