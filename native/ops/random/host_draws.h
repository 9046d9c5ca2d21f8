// Random float32 on the host, for CPU simulation: the definition is pygpukit._reference.random.
#pragma once

#include <span>

#include "ops/random/host_words.h"

namespace gpk::ops {

// In [0, 1): the high 24 bits of each word.
void random_units(const WordSource& source, std::span<float> out);

// Box-Muller in float64: words (x, y) give sqrt(-2 log x) times cos and sin of y turns, times
// `scale`, plus `loc`.
void random_normals(const WordSource& source, double loc, double scale, std::span<float> out);

}  // namespace gpk::ops
