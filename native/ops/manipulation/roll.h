// Cyclic shifts along axes.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// Shifts axis axes[i] by shift[i]; shifts of one axis add up, and one shift applies to all axes.
// nullopt: the flattened array, reshaped back.
Array roll(const Array& x, const Dims& shift, const std::optional<Dims>& axes);

}  // namespace gpk::ops
