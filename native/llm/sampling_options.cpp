#include "llm/sampling_options.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {

void check_sampling(const SamplingOptions& options, const char* op) {
  const auto check = [&](bool good, const char* what, auto value, const char* expected) {
    if (!good) throw InvalidArgument(cat(op, ": ", what, " is ", value, ", expected ", expected));
  };
  const SamplingOptions& o = options;
  check(o.temperature >= 0.0 && std::isfinite(o.temperature), "temperature", o.temperature,
        "0 or more");
  check(o.top_k >= 0, "top_k", o.top_k, "0 or more");
  check(o.top_p > 0.0 && o.top_p <= 1.0, "top_p", o.top_p, "more than 0, and 1 at most");
  check(o.min_p >= 0.0 && o.min_p <= 1.0, "min_p", o.min_p, "0 to 1");
  check(o.typical_p > 0.0 && o.typical_p <= 1.0, "typical_p", o.typical_p,
        "more than 0, and 1 at most");
  check(o.repetition_penalty > 0.0 && std::isfinite(o.repetition_penalty), "repetition_penalty",
        o.repetition_penalty, "more than 0");
  check(std::isfinite(o.presence_penalty), "presence_penalty", o.presence_penalty,
        "a finite number");
  check(std::isfinite(o.frequency_penalty), "frequency_penalty", o.frequency_penalty,
        "a finite number");
  check(o.seed >= 0, "seed", o.seed, "0 or more");
  check(o.logprobs >= 0 && o.logprobs <= kMaxLogprobs, "logprobs", o.logprobs, "0 to 64");
}

}  // namespace gpk::llm
