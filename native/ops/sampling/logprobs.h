// Logarithms of the probabilities of tokens, and how often tokens occurred.
#pragma once

#include <cstdint>

#include "core/array.h"

namespace gpk::ops {

struct TokenLogprobs {
  Array chosen;    // float32, the shape of the rows
  Array ids;       // int32 [..., n], largest first
  Array logprobs;  // float32 [..., n]
};

// log(softmax(logits)) at `tokens`, int32 of shape logits.shape[:-1], and its n (up to 1024)
// largest values. Throws InvalidArgument.
TokenLogprobs token_logprobs(const Array& logits, const Array& tokens, std::int64_t n);

// counts[..., id] += 1 in place. counts are int32 [..., vocabulary], contiguous; ids int32 [...] or
// [..., n]; ids that are no column are skipped. Throws InvalidArgument.
void count_tokens(const Array& counts, const Array& ids);

}  // namespace gpk::ops
