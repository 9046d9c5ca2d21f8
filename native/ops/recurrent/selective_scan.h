// Mamba's selective scan.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct SelectiveScanInputs {
  Array x;                          // [batch, channels, length]
  Array delta;                      // as x
  Array a;                          // [channels, states], float32
  Array b;                          // [batch, states, length]
  Array c;                          // as b
  std::optional<Array> d;           // [channels], float32
  std::optional<Array> z;           // as x
  std::optional<Array> delta_bias;  // [channels], float32
  bool delta_softplus = false;
  std::optional<Array> state;  // [batch, channels, states], float32
};

struct SelectiveScanResult {
  Array out;    // as x
  Array state;  // after the last step, float32
};

// For each channel and state: state = exp(dt a) state + dt b x, out = (sum of c state + d x)
// silu(z). Throws InvalidArgument.
SelectiveScanResult selective_scan(const SelectiveScanInputs& inputs,
                                   const std::optional<Array>& out);

}  // namespace gpk::ops
