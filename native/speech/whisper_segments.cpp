#include "speech/whisper_segments.h"

namespace gpk::speech {
namespace {

constexpr std::int64_t kFramesPerTimestamp = 2;

}  // namespace

WindowSegments split_segments(std::span<const std::int32_t> tokens, std::int32_t first_timestamp,
                              std::int64_t num_frames) {
  const std::size_t count = tokens.size();
  const auto is_stamp = [&](std::size_t i) { return tokens[i] >= first_timestamp; };
  const auto stamp = [&](std::size_t i) {
    return static_cast<std::int64_t>(tokens[i]) - first_timestamp;
  };
  const bool single_ending = count >= 2 && is_stamp(count - 1) && !is_stamp(count - 2);
  std::vector<std::size_t> borders;  // behind the first of two timestamps
  for (std::size_t i = 0; i + 1 < count; ++i)
    if (is_stamp(i) && is_stamp(i + 1)) borders.push_back(i + 1);

  WindowSegments result;
  result.advance = num_frames;
  if (borders.empty()) {
    std::int64_t end = num_frames / kFramesPerTimestamp;
    for (std::size_t i = 0; i < count; ++i)
      if (is_stamp(i)) end = stamp(i);
    if (end == 0) end = num_frames / kFramesPerTimestamp;
    if (count > 0) result.segments.push_back({0, count, 0, end});
    return result;
  }
  std::size_t begin = 0;
  if (single_ending) borders.push_back(count);
  for (const std::size_t border : borders) {
    result.segments.push_back({begin, border, stamp(begin), stamp(border - 1)});
    begin = border;
  }
  if (!single_ending) result.advance = stamp(begin - 1) * kFramesPerTimestamp;
  return result;
}

}  // namespace gpk::speech
