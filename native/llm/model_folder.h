// A model from a Hugging Face folder: config.json and SafeTensors.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "llm/model.h"
#include "llm/weight_loader.h"
#include "llm/weight_set.h"

namespace gpk::llm {

// `options.dtype`: nothing for that of the files. Throws FileError, InvalidArgument for a family
// that is not known and for tensors that do not fit config.json (nothing was loaded then),
// OutOfMemory.
std::shared_ptr<Model> load_model(const std::string& folder, Device device, LoadOptions options);

// With a config and a spec of one's own. `weights`: a file, an index or a folder.
std::shared_ptr<Model> load_model(const std::string& weights, const Json& config,
                                  const ModelSpec& spec, Device device, LoadOptions options);

// One model of several whose tensors are in the same files: of `shapes`, which are all of this one.
std::map<std::string, Dims> shapes_of(const WeightSet& files);
std::shared_ptr<Model> load_part(const WeightSet& files, std::map<std::string, Dims> shapes,
                                 const ModelSpec& spec, ModelConfig config, Device device,
                                 LoadOptions options);

// The JSON in a file of a model folder. Throws FileError, InvalidArgument.
Json read_json(const std::string& path);

}  // namespace gpk::llm
