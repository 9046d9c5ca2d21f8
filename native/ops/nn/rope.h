// Rotary position embedding.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct RopeAngles {
  Array cos;  // [rows, half], the dtype of x or float32
  Array sin;
};

struct RopeFrequencies {
  Array frequencies;    // [half], float32: the angle of a pair is position * frequency
  double factor = 1.0;  // of cosines and sines
};

struct RopeOptions {
  std::optional<Array> positions;  // int32 or int64, [..., seq] or [seq]
  std::int64_t start = 0;          // without positions: that of the first token
  bool interleaved = false;        // pairs are neighbours, not half a head apart
};

// x is [..., seq, heads, dim] in float16, bfloat16 or float32; the first 2 * half elements of a
// head are rotated. `out` may be x. Positions beyond the tables give NaN. Throw InvalidArgument.
Array rope(const Array& x, const RopeAngles& angles, const RopeOptions& options,
           const std::optional<Array>& out);
Array rope_computed(const Array& x, const RopeFrequencies& angles, const RopeOptions& options,
                    const std::optional<Array>& out);

}  // namespace gpk::ops
