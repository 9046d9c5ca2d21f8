#include "llm/model_folder.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "llm/config_json.h"
#include "llm/quantized_checkpoint.h"
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

// The tensors of a weight one behind the other, so that it needs no copy. Without those that
// `checkpoint` converts.
std::vector<WeightSource> sources_of(const std::vector<Weight>& layout, const WeightSet& files,
                                     const std::string& prefix,
                                     const QuantizedCheckpoint* checkpoint) {
  std::vector<WeightSource> sources;
  for (const Weight& weight : layout)
    for (std::size_t i = 0; i < weight.parts.size(); ++i) {
      const std::string name = (weight.role == Role::kHead ? "" : prefix) + weight.parts[i].tensor;
      if (checkpoint != nullptr && checkpoint->has(name)) continue;
      sources.push_back(
          {&files.file_of(name).file(), &files.info(name), i > 0 && !weight.transposed});
    }
  return sources;
}

// The weight that these tensors make, where the files have it quantised.
std::optional<ops::PackedWeight> join_packed(const QuantizedCheckpoint& checkpoint,
                                             const std::vector<std::string>& names, DType dtype,
                                             Device device) {
  if (!checkpoint.has(names.front())) return std::nullopt;
  std::vector<HostPacked> parts;
  for (const std::string& name : names) {
    if (!checkpoint.has(name))
      throw InvalidArgument(
          cat("load: tensor ", names.front(), " is quantised in the files, ", name, " is not"));
    parts.push_back(checkpoint.convert(name));
  }
  // Matrices have up to three parts, q, k and v; stacks of experts have more, and take no blocks.
  const bool keep_blocks = names.size() <= 3;
  return to_device(join_rows(std::move(parts), keep_blocks, names.front()), dtype, device);
}

std::shared_ptr<Model> load_tensors(const WeightSet& files, std::map<std::string, Dims> shapes,
                                    const ModelSpec& spec, ModelConfig config, Device device,
                                    LoadOptions options, const QuantizedCheckpoint* checkpoint) {
  Model::Tensors tensors;
  tensors.shapes = std::move(shapes);
  const std::vector<Weight> layout = weight_layout(spec, config);
  std::string prefix;
  check_tensors(layout, spec, tensors.shapes, prefix);
  if (!options.dtype) {
    const std::string name = prefix + layout.front().parts.front().tensor;
    options.dtype = loadable_dtype(files.info(name), files.path());
  }
  tensors.evictable = options.evictable;
  tensors.quantization = options.quantization;
  const DType dtype = *options.dtype;
  if (checkpoint != nullptr)
    tensors.packed = [&](const std::vector<std::string>& names) {
      return join_packed(*checkpoint, names, dtype, device);
    };
  if (options.quantization) {  // one after the other: never a second copy of the model
    tensors.load = [&](const std::string& name) { return files.load_one(name, device, options); };
    return std::make_shared<Model>(spec, std::move(config), dtype, device, tensors);
  }
  const std::map<std::string, Array> arrays =
      load_weights(sources_of(layout, files, prefix, checkpoint), device, options);
  tensors.load = [&arrays](const std::string& name) { return arrays.at(name); };
  return std::make_shared<Model>(spec, std::move(config), dtype, device, tensors);
}

}  // namespace

std::shared_ptr<Model> load_model(const std::string& folder, Device device, LoadOptions options) {
  const Json json = read_json(folder + "/config.json");
  return load_model(folder, json, spec_of_type(model_type_of(json)), device, std::move(options));
}

std::shared_ptr<Model> load_model(const std::string& weights, const Json& json,
                                  const ModelSpec& family, Device device, LoadOptions options) {
  ModelConfig config = read_config(json, family);
  const std::shared_ptr<WeightSet> files = WeightSet::open(weights);
  const bool has_parts = json.find("text_config") != nullptr;
  const ModelSpec spec = has_parts ? text_part(family, files->names()) : family;
  const std::optional<CheckpointFormat> format = read_checkpoint_format(json);
  if (!format)
    return load_part(*files, shapes_of(*files), spec, std::move(config), device,
                     std::move(options));
  if (options.quantization)
    throw InvalidArgument(cat("load: quantization is '", name(options.quantization->format),
                              "', the files are quantised already: ", to_string(*format)));
  QuantizedCheckpoint checkpoint(*format, *files);
  std::map<std::string, Dims> shapes = checkpoint.fold(shapes_of(*files));
  return load_tensors(*files, std::move(shapes), spec, std::move(config), device,
                      std::move(options), &checkpoint);
}

std::map<std::string, Dims> shapes_of(const WeightSet& files) {
  std::map<std::string, Dims> shapes;
  for (const std::string& name : files.names()) shapes.emplace(name, files.info(name).shape);
  return shapes;
}

std::shared_ptr<Model> load_part(const WeightSet& files, std::map<std::string, Dims> shapes,
                                 const ModelSpec& spec, ModelConfig config, Device device,
                                 LoadOptions options) {
  return load_tensors(files, std::move(shapes), spec, std::move(config), device, std::move(options),
                      nullptr);
}

}  // namespace gpk::llm
