// Segments of a window, by the timestamps among its tokens. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpk::speech {

struct WhisperSegment {
  std::size_t begin, end;         // of the window's tokens
  std::int64_t start_at, end_at;  // in timestamps: 1 is two frames of the spectrogram
};

struct WindowSegments {
  std::vector<WhisperSegment> segments;
  std::int64_t advance = 0;  // frames from this window to the next
};

// Of the tokens of a window, without eos, that has `num_frames` frames of sound. Timestamps are
// from `first_timestamp` on. Two in a row are the border of two segments; what comes after the last
// such border belongs to the next window, unless a single timestamp ends the tokens. Without such a
// border all tokens are one segment, and the next window follows this one.
WindowSegments split_segments(std::span<const std::int32_t> tokens, std::int32_t first_timestamp,
                              std::int64_t num_frames);

}  // namespace gpk::speech
