// The same elements several times.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// The whole array repeats[i] times along axis i; both sides are filled up with ones in front.
Array tile(const Array& x, const Dims& repeats);

// Every element `count` times in a row along `axis`; nullopt: of the flattened array.
Array repeat(const Array& x, std::int64_t count, std::optional<std::int64_t> axis, const char* op);

}  // namespace gpk::ops
