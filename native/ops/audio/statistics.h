// Statistics of frames, and medians of windows.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct FrameStats {
  Array mean_square;  // [..., frames]
  Array crossings;    // neighbours with different signs, [..., frames]
};

// Of frames of `frame` samples, `hop` apart, along the last axis of x. Throws InvalidArgument.
FrameStats audio_frame_stats(const Array& x, std::int64_t frame, std::int64_t hop, const char* op);

// Element size / 2, in ascending order, of the window around each element along an axis. Throws
// InvalidArgument.
Array audio_median(const Array& x, std::int64_t size, std::int64_t axis,
                   const std::optional<Array>& out, const char* op);

}  // namespace gpk::ops
