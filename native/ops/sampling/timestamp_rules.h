// The logits of tokens that may come next in a transcript with timestamps.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct TimestampRules {
  Array suppress;        // bits, uint32 [ceil(vocabulary / 32)]: 1 for tokens that are never drawn
  Array begin_suppress;  // the same, for the first token
  std::int64_t eos = 0;  // texts are below it
  std::int64_t first_timestamp = -1;  // timestamps are from it to the end; -1: no timestamps
  std::int64_t max_initial = -1;      // largest first timestamp, from first_timestamp on; -1: any
};

// Logits with -inf for tokens that may not come next; float16, bfloat16 or float32 [rows,
// vocabulary]. Timestamps come in pairs, except ahead of eos; they do not decrease; the first token
// is one; and where all timestamps together are likelier than any text, one of them is next.
//
// history is int32 [4, rows] and updated: the number of tokens drawn so far (-1: none, and `tokens`
// is the end of the prompt), the last one, the one before it, the newest timestamp (0: none).
// `tokens`, int32 [rows], become part of it. `out` may be logits. Throws InvalidArgument.
Array timestamp_rules(const Array& logits, const Array& tokens, const Array& history,
                      const TimestampRules& rules, const std::optional<Array>& out);

}  // namespace gpk::ops
