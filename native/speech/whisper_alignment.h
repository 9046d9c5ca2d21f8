// When each token of a text is spoken, by the decoder's cross attention.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "speech/whisper_decoder.h"

namespace gpk::speech {

struct AlignmentOptions {
  std::vector<std::pair<std::int64_t, std::int64_t>> heads;  // layer and head
  std::int64_t num_frames = 0;      // of the spectrogram that are sound; 0: all
  std::int64_t median_width = 7;    // of the filter over frames
  std::int32_t vocabulary_end = 0;  // probabilities are among the tokens below it
};

struct TokenAlignment {
  std::vector<std::int64_t> begins;  // of each token of the text and of its end: rows of the source
  std::vector<float> probs;          // of each token of the text
};

// `prompt`, then `text`, then `end` run through the decoder once. Throws InvalidArgument for heads
// that the model does not have and for a text that is too long.
TokenAlignment align(WhisperDecoder& decoder, const llm::Sequence& source,
                     std::span<const std::int32_t> prompt, std::span<const std::int32_t> text,
                     std::int32_t end, const AlignmentOptions& options);

}  // namespace gpk::speech
