// Whisper as data: the names of its tensors, and the numbers of one model.
#pragma once

#include "base/json.h"
#include "llm/model_config.h"
#include "llm/model_spec.h"

namespace gpk::speech {

// Both parts are models of `llm`: the encoder one of spectrograms, the decoder one with cross
// attention.
const llm::ModelSpec& whisper_encoder_spec();
const llm::ModelSpec& whisper_decoder_spec();

struct WhisperConfig {
  llm::ModelConfig encoder, decoder;
};

// config.json of a Hugging Face folder. Throws InvalidArgument, naming the field, for values of
// another kind, for missing ones and for what is not supported.
WhisperConfig read_whisper_config(const Json& json);

}  // namespace gpk::speech
