// A token of each row of logits, drawn on the device.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"

namespace gpk::ops {

// For all rows, or an array of the shape of the rows: float32, int32 (top_k), int64 (seed, step).
struct RowNumber {
  double value = 0.0;
  std::optional<Array> values;
};
struct RowInteger {
  std::int64_t value = 0;
  std::optional<Array> values;
};

struct SampleFilter {
  RowNumber temperature{1.0, {}};  // 0: the largest logit
  RowInteger top_k;                // 0: all
  RowNumber top_p{1.0, {}};
  RowNumber min_p;
  RowNumber typical_p{1.0, {}};
  RowNumber repetition_penalty{1.0, {}};
  RowNumber presence_penalty;
  RowNumber frequency_penalty;
  std::optional<Array> counts;      // int32, of the shape of logits: tokens seen so far
  std::optional<Array> logit_bias;  // of the shape of logits or of one row
  std::optional<Array> mask;  // bool, or bits in int32 / uint32: 1 for tokens that may be drawn
};

struct SampleSource {
  RowInteger seed;
  RowInteger step;                // an array is counted up by one
  std::optional<Array> uniforms;  // float32 in [0, 1), instead of both
};

// int32 of shape logits.shape[:-1]. logits are float16, bfloat16 or float32 [..., vocabulary]; the
// order of the steps is that of the fields of SampleFilter from the penalties on, then temperature,
// top-k, top-p, min-p, typical. Throws InvalidArgument.
Array sample(const Array& logits, const SampleFilter& filter, const SampleSource& source,
             const std::optional<Array>& out);

// float32 of the shape of logits.
Array sampling_probs(const Array& logits, const SampleFilter& filter,
                     const std::optional<Array>& out);

}  // namespace gpk::ops
