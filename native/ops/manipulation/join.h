// Joining arrays.
#pragma once

#include <optional>
#include <span>

#include "core/array.h"

namespace gpk::ops {

struct JoinOptions {
  std::optional<DType> dtype = {};  // default: the common one
  std::optional<Array> out = {};
};

// Concatenates along `axis` (nullopt: flattened first); other axes must be equal.
Array concat(std::span<const Array> arrays, std::optional<std::int64_t> axis,
             const JoinOptions& options, const char* op);

// Stacks along a new axis; all shapes must be equal.
Array stack(std::span<const Array> arrays, std::int64_t axis, const JoinOptions& options,
            const char* op);

}  // namespace gpk::ops
