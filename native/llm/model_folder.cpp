#include "llm/model_folder.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "llm/config_json.h"
#include "llm/weight_set.h"

namespace gpk::llm {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 24;

}  // namespace

Json read_json(const std::string& path) {
  const WeightFile file(path);
  if (file.size_bytes() > kMaxConfigBytes)
    throw InvalidArgument(cat("load: ", path, " has ", file.size_bytes(),
                              " bytes, expected at most ", kMaxConfigBytes));
  std::string text(file.size_bytes(), '\0');
  file.read(0, text.data(), text.size());
  return parse_json(text, path);
}

namespace {

// The tensors of a weight one behind the other, so that it needs no copy.
std::vector<WeightSource> sources_of(const std::vector<Weight>& layout, const WeightSet& files,
                                     const std::string& prefix) {
  std::vector<WeightSource> sources;
  for (const Weight& weight : layout)
    for (std::size_t i = 0; i < weight.parts.size(); ++i) {
      const std::string name = (weight.role == Role::kHead ? "" : prefix) + weight.parts[i].tensor;
      sources.push_back(
          {&files.file_of(name).file(), &files.info(name), i > 0 && !weight.transposed});
    }
  return sources;
}

}  // namespace

std::shared_ptr<Model> load_model(const std::string& folder, Device device, LoadOptions options) {
  const Json json = read_json(folder + "/config.json");
  return load_model(folder, json, spec_of_type(model_type_of(json)), device, std::move(options));
}

std::shared_ptr<Model> load_model(const std::string& weights, const Json& json,
                                  const ModelSpec& spec, Device device, LoadOptions options) {
  ModelConfig config = read_config(json, spec);
  const std::shared_ptr<WeightSet> files = WeightSet::open(weights);
  return load_part(*files, shapes_of(*files), spec, std::move(config), device, std::move(options));
}

std::map<std::string, Dims> shapes_of(const WeightSet& files) {
  std::map<std::string, Dims> shapes;
  for (const std::string& name : files.names()) shapes.emplace(name, files.info(name).shape);
  return shapes;
}

std::shared_ptr<Model> load_part(const WeightSet& files, std::map<std::string, Dims> shapes,
                                 const ModelSpec& spec, ModelConfig config, Device device,
                                 LoadOptions options) {
  Model::Tensors tensors;
  tensors.shapes = std::move(shapes);
  const std::vector<Weight> layout = weight_layout(spec, config);
  std::string prefix;
  check_tensors(layout, spec, tensors.shapes, prefix);
  if (!options.dtype) {
    const std::string name = prefix + layout.front().parts.front().tensor;
    options.dtype = loadable_dtype(files.info(name), files.path());
  }
  const std::map<std::string, Array> arrays =
      load_weights(sources_of(layout, files, prefix), device, options);
  tensors.evictable = options.evictable;
  tensors.load = [&arrays](const std::string& name) { return arrays.at(name); };
  return std::make_shared<Model>(spec, std::move(config), *options.dtype, device, tensors);
}

}  // namespace gpk::llm
