// config.json of a Hugging Face folder to the numbers of a model.
#pragma once

#include "base/json.h"
#include "llm/model_config.h"

namespace gpk::llm {

// "model_type"; of a model with several parts, that of its text part.
std::string model_type_of(const Json& config);

// Names as Transformers 4 and 5 write them. Throws InvalidArgument, naming the field, for values of
// another kind, for missing ones, and for what is not supported (an unknown activation).
ModelConfig read_config(const Json& config, const ModelSpec& spec);

}  // namespace gpk::llm
