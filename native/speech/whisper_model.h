// A Whisper: an encoder and a decoder, their weights on a device.
#pragma once

#include <memory>
#include <string>

#include "llm/model.h"
#include "llm/weight_loader.h"
#include "speech/whisper_config.h"

namespace gpk::speech {

struct WhisperModel {
  std::shared_ptr<const llm::Model> encoder, decoder;

  [[nodiscard]] std::int64_t num_parameters() const {
    return encoder->num_parameters() + decoder->num_parameters();
  }
  [[nodiscard]] std::int64_t num_bytes() const {
    return encoder->num_bytes() + decoder->num_bytes();
  }
  [[nodiscard]] std::int64_t num_frames() const {  // of a spectrogram
    return 2 * encoder->config().source_positions;
  }
  // The steps of both parts, as text.
  [[nodiscard]] std::string explain() const { return encoder->explain() + decoder->explain(); }
};

// From a Hugging Face folder. `options.dtype`: nothing for that of the files. Throws FileError,
// InvalidArgument for missing, left over or misshapen tensors, OutOfMemory.
std::shared_ptr<WhisperModel> load_whisper(const std::string& folder, Device device,
                                           llm::LoadOptions options);

// From tensors that the caller has.
std::shared_ptr<WhisperModel> make_whisper(const Json& config, DType dtype, Device device,
                                           const llm::Model::Tensors& tensors);

}  // namespace gpk::speech
