// How likely given targets are under the softmax of logits, without the probabilities of others.
#pragma once

#include "core/array.h"

namespace gpk::ops {

// log(softmax(logits)) at the target of each row, float32 of shape logits.shape[:-1]: 0 where the
// target is `ignored`, NaN where it is no column. logits are float16, bfloat16 or float32 [..., n],
// targets int32 or int64 [...]. Each row is read once. Throws InvalidArgument.
Array log_likelihood(const Array& logits, const Array& targets, std::int64_t ignored,
                     const std::optional<Array>& out);

}  // namespace gpk::ops
