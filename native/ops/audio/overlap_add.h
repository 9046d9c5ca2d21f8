// The sum of overlapping frames.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct OverlapAddRequest {
  const char* name = "overlap_add";  // of the public function
  std::int64_t hop = 1;
  std::int64_t start = 0;   // the first sample of the sum that is stored
  std::int64_t length = 0;  // how many are; zeros after the last frame
};

// Of frames [..., frames, n]; with a window [n], frames are multiplied by it and the sum divided by
// that of its squares. Throws InvalidArgument.
Array audio_overlap_add(const Array& frames, const std::optional<Array>& window,
                        const OverlapAddRequest& request, const std::optional<Array>& out);

}  // namespace gpk::ops
