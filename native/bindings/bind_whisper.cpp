// Whisper: a model, its encoder, sources and the texts that its decoder gives.
#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/load_arguments.h"
#include "speech/alignment.h"
#include "speech/whisper_alignment.h"
#include "speech/whisper_decoder.h"
#include "speech/whisper_encoder.h"
#include "speech/whisper_model.h"
#include "speech/whisper_segments.h"

namespace gpk::bind {
namespace {

using speech::WhisperDecoder;
using speech::WhisperEncoder;
using speech::WhisperModel;
using Tokens = std::vector<std::int32_t>;

// A source and the decoder whose cross cache it is in.
struct Source {
  std::shared_ptr<WhisperDecoder> decoder;
  llm::Sequence sequence;
};
using Sources = std::vector<std::shared_ptr<Source>>;

std::shared_ptr<WhisperModel> load_folder(const std::string& folder, py::handle dtype,
                                          py::handle device, py::handle progress) {
  const llm::LoadOptions options = load_options(dtype, progress);
  const Device where = device_from_python(device, "load");
  const WithoutGil released;
  return speech::load_whisper(folder, where, options);
}

std::shared_ptr<WhisperModel> from_tensors(const std::string& config, const py::dict& shapes,
                                           const py::function& load, py::handle dtype,
                                           py::handle device) {
  return speech::make_whisper(parse_json(config, "config.json"), dtype_from_python(dtype, "load"),
                              device_from_python(device, "load"), tensors_from(shapes, load));
}

void bind_model(py::module_& m) {
  py::class_<WhisperModel, std::shared_ptr<WhisperModel>>(m, "AsrModel",
                                                          "A Whisper's weights on a device.")
      .def_static("load_folder", &load_folder, py::arg("folder"), py::arg("dtype"),
                  py::arg("device"), py::arg("progress"), "From a Hugging Face folder.")
      .def_static("from_tensors", &from_tensors, py::arg("config"), py::arg("shapes"),
                  py::arg("load"), py::arg("dtype"), py::arg("device"),
                  "From shapes by name, and a function that gives the array of a name.")
      .def("explain", &WhisperModel::explain, "The steps of both parts, as text.")
      .def_property_readonly("num_parameters", &WhisperModel::num_parameters)
      .def_property_readonly("num_bytes", &WhisperModel::num_bytes)
      .def_property_readonly("num_frames", &WhisperModel::num_frames)
      .def_property_readonly(
          "dtype", [](const WhisperModel& x) { return std::string(name(x.encoder->dtype())); })
      .def_property_readonly("device",
                             [](const WhisperModel& x) { return to_string(x.encoder->device()); });
}

void bind_encoder(py::module_& m) {
  py::class_<WhisperEncoder>(m, "AsrEncoder", "Spectrograms to states.")
      .def(py::init([](const WhisperModel& model) {
             return std::make_unique<WhisperEncoder>(model.encoder);
           }),
           py::arg("model"))
      .def(
          "encode",
          [](WhisperEncoder& x, const Array& mel) {
            const WithoutGil released;
            return x.encode(mel);
          },
          py::arg("mel"), "States [batch, frames / 2, width] of mel [batch, mels, frames].");
}

speech::WhisperTextOptions text_options(const Tokens& suppressed, const Tokens& begin_suppressed,
                                        std::int32_t eos, std::int32_t first_timestamp,
                                        std::int32_t max_initial_timestamp, double temperature,
                                        std::int64_t top_k, std::int64_t seed,
                                        std::int64_t max_new_tokens, std::int64_t num_beams,
                                        double length_penalty, std::int32_t start_token,
                                        std::int32_t no_speech_token) {
  speech::WhisperTextOptions options;
  options.rules = {suppressed, begin_suppressed, eos, first_timestamp, max_initial_timestamp};
  options.sampling.temperature = temperature;
  options.sampling.top_k = top_k;
  options.sampling.seed = seed;
  options.max_new_tokens = max_new_tokens;
  options.num_beams = num_beams;
  options.length_penalty = length_penalty;
  options.start_token = start_token;
  options.no_speech_token = no_speech_token;
  return options;
}

std::vector<speech::WhisperText> decode(WhisperDecoder& decoder, const Sources& sources,
                                        const std::vector<Tokens>& prompts,
                                        const speech::WhisperTextOptions& options) {
  std::vector<const llm::Sequence*> sequences;
  for (const auto& source : sources) sequences.push_back(&source->sequence);
  const WithoutGil released;
  return decoder.decode(sequences, prompts, options);
}

void bind_decoder(py::module_& m) {
  py::class_<Source, std::shared_ptr<Source>>(m, "AsrSource",
                                              "Keys and values of a window's states.")
      .def_property_readonly("length", [](const Source& x) { return x.sequence.length(); })
      .def("release", [](Source& x) { x.sequence.truncate(0); }, "Frees its part of the cache.");
  py::class_<speech::WhisperTextOptions>(m, "AsrTextOptions", "How texts are decoded.")
      .def(py::init(&text_options), py::kw_only(), py::arg("suppressed"),
           py::arg("begin_suppressed"), py::arg("eos"), py::arg("first_timestamp"),
           py::arg("max_initial_timestamp"), py::arg("temperature"), py::arg("top_k"),
           py::arg("seed"), py::arg("max_new_tokens"), py::arg("num_beams"),
           py::arg("length_penalty"), py::arg("start_token"), py::arg("no_speech_token"));
  py::class_<speech::WhisperText>(m, "AsrText", "A text that was decoded.")
      .def_readonly("tokens", &speech::WhisperText::tokens)
      .def_readonly("ended", &speech::WhisperText::ended)
      .def_readonly("mean_logprob", &speech::WhisperText::mean_logprob)
      .def_readonly("no_speech", &speech::WhisperText::no_speech);
  py::class_<WhisperDecoder, std::shared_ptr<WhisperDecoder>>(m, "AsrDecoder", "Sources to texts.")
      .def(py::init([](const WhisperModel& model, std::int64_t max_sources, std::int64_t max_beams,
                       bool use_graph, bool persistent) {
             const WithoutGil released;
             return std::make_shared<WhisperDecoder>(
                 model.decoder,
                 WhisperDecoder::Options{max_sources, max_beams, use_graph, persistent});
           }),
           py::arg("model"), py::arg("max_sources"), py::arg("max_beams"), py::arg("use_graph"),
           py::arg("persistent") = false)
      .def("explain", &WhisperDecoder::explain,
           "How the layers of the newest decode steps were launched.")
      .def(
          "add",
          [](const std::shared_ptr<WhisperDecoder>& x, const Array& states) {
            const WithoutGil released;
            Sources sources;
            for (llm::Sequence& sequence : x->add(states))
              sources.push_back(std::make_shared<Source>(Source{x, std::move(sequence)}));
            return sources;
          },
          py::arg("states"), "Sources from states [sources, rows, width].")
      .def(
          "logits",
          [](WhisperDecoder& x, const Source& source, const Tokens& tokens) {
            const WithoutGil released;
            return x.logits(source.sequence, tokens);
          },
          py::arg("source"), py::arg("tokens"),
          "Logits after every token; overwritten by the next pass.")
      .def("decode", &decode, py::arg("sources"), py::arg("prompts"), py::arg("options"),
           "A text for each source, after its prompt.")
      .def(
          "align",
          [](WhisperDecoder& x, const Source& source, const Tokens& prompt, const Tokens& text,
             std::int32_t end, const std::vector<std::pair<std::int64_t, std::int64_t>>& heads,
             std::int64_t num_frames, std::int64_t median_width) {
            const WithoutGil released;
            speech::TokenAlignment all = speech::align(x, source.sequence, prompt, text, end,
                                                       {heads, num_frames, median_width, end});
            return std::pair(std::move(all.begins), std::move(all.probs));
          },
          py::arg("source"), py::arg("prompt"), py::arg("text"), py::arg("end"), py::arg("heads"),
          py::arg("num_frames"), py::arg("median_width"),
          "Rows where each token and the end begin, and the tokens' probabilities.");
}

py::tuple split_segments(const Tokens& tokens, std::int32_t first_timestamp,
                         std::int64_t num_frames) {
  const speech::WindowSegments window = speech::split_segments(tokens, first_timestamp, num_frames);
  py::list segments;
  for (const speech::WhisperSegment& s : window.segments)
    segments.append(py::make_tuple(s.begin, s.end, s.start_at, s.end_at));
  return py::make_tuple(segments, window.advance);
}

}  // namespace

void bind_whisper(py::module_& m) {
  bind_model(m);
  bind_encoder(m);
  bind_decoder(m);
  m.def("asr_segments", &split_segments, py::arg("tokens"), py::arg("first_timestamp"),
        py::arg("num_frames"),
        "((begin, end, start, stop) of each segment, frames to the next window).");
}

}  // namespace gpk::bind
