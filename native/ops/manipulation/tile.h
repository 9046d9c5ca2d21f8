// Repetition of arrays and elements.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// The whole array repeats[i] times along axis i; the shorter of the two is padded with ones in
// front.
Array tile(const Array& x, const Dims& repeats);

// Each element `count` times in a row along `axis`; nullopt: of the flattened array.
Array repeat(const Array& x, std::int64_t count, std::optional<std::int64_t> axis, const char* op);

}  // namespace gpk::ops
