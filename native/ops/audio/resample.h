// Polyphase resampling.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct ResampleRequest {
  const char* name = "resample";  // of the public function
  std::int64_t up = 1;
  std::int64_t down = 1;
  std::int64_t before = 0;  // taps ahead of the sample at or before an output
  std::int64_t length = 0;  // of the result
  bool edge = false;        // samples outside are the first and the last, not 0
};

// Along the last axis of x, with taps [number of taps, up]. Throws InvalidArgument.
Array audio_resample(const Array& x, const Array& taps, const ResampleRequest& request,
                     const std::optional<Array>& out);

}  // namespace gpk::ops
