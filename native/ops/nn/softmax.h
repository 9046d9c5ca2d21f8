// Softmax along an axis.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct SoftmaxOptions {
  std::int64_t axis = -1;
  std::optional<Array> mask;  // bool, broadcast to x: only elements where it is true take part
  double scale = 1.0;         // x is multiplied by it
  bool log = false;
};

// exp(scale * x) / sum(exp(scale * x)) along the axis, 0 where the mask is false, also in a row
// without a true element; `log` gives the logarithm, then -inf. x is float16, bfloat16 or float32,
// and computed with in float32. Throws InvalidArgument.
Array softmax(const Array& x, const SoftmaxOptions& options, const std::optional<Array>& out);

}  // namespace gpk::ops
