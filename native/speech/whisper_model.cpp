#include "speech/whisper_model.h"

#include <map>
#include <utility>

#include "llm/model_folder.h"

namespace gpk::speech {
namespace {

using Shapes = std::map<std::string, Dims>;

// The encoder's tensors and all others, which the decoder has to know.
std::pair<Shapes, Shapes> by_part(const Shapes& shapes) {
  std::pair<Shapes, Shapes> parts;
  for (const auto& [name, shape] : shapes) {
    const bool of_encoder = name.starts_with("model.encoder.") || name.starts_with("encoder.");
    (of_encoder ? parts.first : parts.second).emplace(name, shape);
  }
  return parts;
}

void check_parts(const WhisperConfig& config, const Shapes& encoder, const Shapes& decoder) {
  std::string prefix;
  const auto check = [&](const llm::ModelSpec& spec, const llm::ModelConfig& part,
                         const Shapes& shapes) {
    llm::check_tensors(llm::weight_layout(spec, part), spec, shapes, prefix);
  };
  check(whisper_encoder_spec(), config.encoder, encoder);
  check(whisper_decoder_spec(), config.decoder, decoder);
}

}  // namespace

std::shared_ptr<WhisperModel> load_whisper(const std::string& folder, Device device,
                                           llm::LoadOptions options) {
  const WhisperConfig config = read_whisper_config(llm::read_json(folder + "/config.json"));
  const std::shared_ptr<llm::WeightSet> files = llm::WeightSet::open(folder);
  const auto [encoder, decoder] = by_part(llm::shapes_of(*files));
  check_parts(config, encoder, decoder);  // ahead of the first byte
  auto model = std::make_shared<WhisperModel>();
  model->encoder =
      llm::load_part(*files, encoder, whisper_encoder_spec(), config.encoder, device, options);
  options.dtype = model->encoder->dtype();
  model->decoder =
      llm::load_part(*files, decoder, whisper_decoder_spec(), config.decoder, device, options);
  return model;
}

std::shared_ptr<WhisperModel> make_whisper(const Json& json, DType dtype, Device device,
                                           const llm::Model::Tensors& tensors) {
  const WhisperConfig config = read_whisper_config(json);
  const auto [encoder, decoder] = by_part(tensors.shapes);
  check_parts(config, encoder, decoder);
  llm::Model::Tensors part = tensors;
  part.shapes = encoder;
  auto model = std::make_shared<WhisperModel>();
  model->encoder =
      std::make_shared<llm::Model>(whisper_encoder_spec(), config.encoder, dtype, device, part);
  part.shapes = decoder;
  model->decoder =
      std::make_shared<llm::Model>(whisper_decoder_spec(), config.decoder, dtype, device, part);
  return model;
}

}  // namespace gpk::speech
