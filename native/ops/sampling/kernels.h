// Every kernel of the family by number, and the variants that plans choose.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/builtin.h"

namespace gpk::ops::sampling {

enum class SamplingKernel : std::uint8_t { kSample, kLogprobs, kTokenCounts, kTimestampRules };

void enumerate_sample(std::vector<jit::KernelSpec>& specs);
void enumerate_logprobs(std::vector<jit::KernelSpec>& specs);
void enumerate_token_counts(std::vector<jit::KernelSpec>& specs);
void enumerate_timestamp_rules(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::sampling
