// Padding.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/array.h"
#include "core/scalar.h"

namespace gpk::ops {

enum class PadMode { kConstant, kEdge, kReflect, kSymmetric, kWrap, kEmpty };

// "constant", "edge", "reflect", "symmetric", "wrap", "empty".
std::optional<PadMode> pad_mode_from_name(std::string_view name) noexcept;

using PadWidths = std::vector<std::pair<std::int64_t, std::int64_t>>;  // before, after; per axis
using PadValues = std::vector<std::pair<Scalar, Scalar>>;              // kConstant only

// Axis i grows by widths[i]. The modes are those of numpy.pad.
Array pad(const Array& x, const PadWidths& widths, PadMode mode, const PadValues& values);

}  // namespace gpk::ops
