// Elements shifted along axes; what leaves at one end comes in at the other.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// Axis axes[i] by shift[i] places; shifts of one axis add up, and one shift serves all axes.
// nullopt: the flattened array, in its old shape.
Array roll(const Array& x, const Dims& shift, const std::optional<Dims>& axes);

}  // namespace gpk::ops
