// Language models: a model, its runner, sequences of its cache, texts that are generated.
#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/load_arguments.h"
#include "llm/config_json.h"
#include "llm/generation.h"
#include "llm/jacobi_drafter.h"
#include "llm/model_drafter.h"
#include "llm/model_folder.h"
#include "llm/ngram_drafter.h"
#include "llm/speculation.h"

namespace gpk::bind {
namespace {

using llm::Generation;
using llm::Model;
using llm::Runner;
using llm::Sequence;
using Tokens = std::vector<std::int32_t>;

// "int4": how linear layers are packed on the way in.
std::optional<ops::PackedLayout> layout_named(const std::optional<std::string>& quantization,
                                              std::optional<std::int64_t> group,
                                              bool zero_point = false, bool block = false) {
  if (quantization)
    return make_layout(ops::quant_format_named(*quantization, "load"), group, zero_point, block,
                       "load");
  const auto refuse = [](const std::string& given) {
    throw InvalidArgument(cat("load: ", given, ", quantization is None, expected a format"));
  };
  if (group) refuse(cat("group is ", *group));
  if (zero_point) refuse("zero_point is True");
  if (block) refuse("block is True");
  return std::nullopt;
}

std::shared_ptr<Model> make_model(const std::string& config, const std::string& family,
                                  const py::dict& shapes, const py::function& load,
                                  py::handle dtype, py::handle device,
                                  const std::optional<std::string>& quantization,
                                  std::optional<std::int64_t> group) {
  const Json json = parse_json(config, "config.json");
  if (json.find("quantization_config") != nullptr)
    throw InvalidArgument(
        "load: config.json has a quantization_config; such files are read by load(folder) alone");
  const std::string type = family.empty() ? llm::model_type_of(json) : family;
  const llm::ModelSpec& spec = llm::spec_of_type(type);
  Model::Tensors tensors = tensors_from(shapes, load);
  tensors.quantization = layout_named(quantization, group);
  return std::make_shared<Model>(spec, llm::read_config(json, spec),
                                 dtype_from_python(dtype, "load"),
                                 device_from_python(device, "load"), tensors);
}

std::shared_ptr<Model> load_folder(const std::string& folder, py::handle dtype, py::handle device,
                                   bool evictable, std::size_t block_bytes, py::handle progress,
                                   const std::optional<std::string>& quantization,
                                   std::optional<std::int64_t> group, bool zero_point, bool block) {
  llm::LoadOptions options = load_options(dtype, progress);
  options.quantization = layout_named(quantization, group, zero_point, block);
  options.evictable = evictable;
  options.block_bytes = block_bytes;
  const Device where = device_from_python(device, "load");
  const WithoutGil released;
  return llm::load_model(folder, where, options);
}

void bind_model(py::module_& m) {
  py::class_<Model, std::shared_ptr<Model>>(m, "LlmModel",
                                            "A language model's weights on a device.")
      .def(py::init(&make_model), py::arg("config"), py::arg("family"), py::arg("shapes"),
           py::arg("load"), py::arg("dtype"), py::arg("device"),
           py::arg("quantization") = py::none(), py::arg("group") = py::none())
      .def_static("load_folder", &load_folder, py::arg("folder"), py::arg("dtype"),
                  py::arg("device"), py::arg("evictable"), py::arg("block_bytes"),
                  py::arg("progress"), py::arg("quantization") = py::none(),
                  py::arg("group") = py::none(), py::arg("zero_point") = false,
                  py::arg("block") = false, "A model from a Hugging Face folder.")
      .def("explain", &Model::explain, "The steps of a forward pass, as text.")
      .def_property_readonly("family", [](const Model& x) { return x.spec().name; })
      .def_property_readonly("device", [](const Model& x) { return to_string(x.device()); })
      .def_property_readonly("num_parameters", &Model::num_parameters)
      .def_property_readonly("num_bytes", &Model::num_bytes)
      .def_property_readonly("evictable", &Model::evictable)
      .def_property_readonly("vocab_size", [](const Model& x) { return x.config().vocab_size; })
      .def_property_readonly("hidden_size", [](const Model& x) { return x.config().hidden_size; })
      .def_property_readonly("num_layers", [](const Model& x) { return x.config().num_layers; })
      .def_property_readonly("max_positions",
                             [](const Model& x) { return x.config().max_positions; });
}

void skip_tokens(Sequence& sequence, std::int64_t count) {
  if (count < 0) throw InvalidArgument(cat("skip: count is ", count, ", expected 0 or more"));
  const WithoutGil released;
  sequence.reserve(sequence.length() + count);
  sequence.advance(count);
}

py::tuple cache_of(const Runner& runner, std::int64_t layer) {
  const llm::KvPages& pages = runner.pages();
  if (layer < 0 || layer >= pages.num_layers())
    throw InvalidArgument(
        cat("cache: layer is ", layer, ", expected 0 to ", pages.num_layers() - 1));
  return py::make_tuple(py::reinterpret_steal<py::object>(make_array_object(pages.k(layer))),
                        py::reinterpret_steal<py::object>(make_array_object(pages.v(layer))));
}

void bind_runner(py::module_& m) {
  py::class_<Sequence>(m, "LlmSequence", "Tokens that a runner's cache holds.")
      .def_property_readonly("length", &Sequence::length)
      .def_property_readonly("max_length", &Sequence::max_length)
      .def("truncate", &Sequence::truncate, py::arg("length"),
           "Forgets what comes after the first tokens.")
      .def("skip", &skip_tokens, py::arg("count"),
           "Makes room for tokens as if they were in the cache, whose contents stay as they are: "
           "for measurements.")
      .def("fork", &Sequence::fork,
           "Another sequence with the same tokens; pages are shared until one of them writes.");
  py::class_<Runner, std::shared_ptr<Runner>>(m, "LlmRunner",
                                              "Forward passes of a model, and their memory.")
      .def(py::init([](const std::shared_ptr<Model>& model, std::int64_t max_tokens,
                       std::int64_t max_sequences, std::int64_t max_length, std::int64_t num_pages,
                       std::int64_t page, py::handle kv_dtype, bool persistent) {
             llm::RunnerOptions options{max_tokens, max_sequences, max_length, num_pages, page};
             options.kv_dtype = optional_dtype(kv_dtype, "runner");
             options.persistent = persistent;
             const WithoutGil released;
             return std::make_shared<Runner>(model, options);
           }),
           py::arg("model"), py::arg("max_tokens"), py::arg("max_sequences"), py::arg("max_length"),
           py::arg("num_pages"), py::arg("page"), py::arg("kv_dtype") = py::none(),
           py::arg("persistent") = false)
      .def("make_sequence", &Runner::make_sequence, py::arg("length") = 0,
           "An empty sequence, of a text that begins with so many tokens.")
      .def(
          "forward",
          [](Runner& runner, Sequence& sequence, const Tokens& tokens, bool all_rows) {
            const auto rows = static_cast<std::int64_t>(all_rows ? tokens.size() : 1);
            const Runner::Chunk chunk{sequence, tokens, rows};
            const WithoutGil released;
            return runner.forward({&chunk, 1});
          },
          py::arg("sequence"), py::arg("tokens"), py::arg("all_rows"),
          "Logits after the last token, or after every one; overwritten by the next pass.")
      .def("cache", &cache_of, py::arg("layer"),
           "Keys and values of a layer: [pages, page, kv_heads, head_dim].")
      .def_property_readonly("max_tokens", [](const Runner& x) { return x.options().max_tokens; })
      .def_property_readonly("max_sequences",
                             [](const Runner& x) { return x.options().max_sequences; })
      .def_property_readonly("max_length", [](const Runner& x) { return x.options().max_length; })
      .def_property_readonly("num_pages", [](const Runner& x) { return x.pages().num_pages(); })
      .def_property_readonly("num_free_pages",
                             [](const Runner& x) { return x.pages().num_free(); });
}

llm::GenerationOptions generation_options(std::int64_t max_new_tokens, double temperature,
                                          std::int64_t top_k, double top_p, double min_p,
                                          double typical_p, double repetition_penalty,
                                          double presence_penalty, double frequency_penalty,
                                          std::int64_t seed, const Tokens& stop_tokens,
                                          bool use_graph) {
  return {max_new_tokens,
          {.temperature = temperature,
           .top_k = top_k,
           .top_p = top_p,
           .min_p = min_p,
           .typical_p = typical_p,
           .repetition_penalty = repetition_penalty,
           .presence_penalty = presence_penalty,
           .frequency_penalty = frequency_penalty,
           .seed = seed},
          stop_tokens,
          use_graph};
}

void bind_generation(py::module_& m) {
  py::class_<llm::GenerationOptions>(m, "LlmGenerationOptions", "How texts are continued.")
      .def(py::init(&generation_options), py::arg("max_new_tokens"), py::arg("temperature"),
           py::arg("top_k"), py::arg("top_p"), py::arg("min_p"), py::arg("typical_p"),
           py::arg("repetition_penalty"), py::arg("presence_penalty"), py::arg("frequency_penalty"),
           py::arg("seed"), py::arg("stop_tokens"), py::arg("use_graph"));
  py::class_<Generation>(m, "LlmGeneration", "Texts that grow by a token a step.")
      .def(py::init([](const std::shared_ptr<Runner>& runner, const std::vector<Tokens>& prompts,
                       const llm::GenerationOptions& options) {
             const WithoutGil released;
             return std::make_unique<Generation>(runner, prompts, options);
           }),
           py::arg("runner"), py::arg("prompts"), py::arg("options"))
      .def_static(
          "after",
          [](const Sequence& prefix, const std::shared_ptr<Runner>& runner, const Tokens& prompt,
             const llm::GenerationOptions& options) {
            const WithoutGil released;
            return std::make_unique<Generation>(runner, std::vector<Tokens>{prompt}, options,
                                                &prefix);
          },
          py::arg("prefix"), py::arg("runner"), py::arg("prompt"), py::arg("options"),
          "A text whose prompt begins with tokens that a sequence has.")
      .def("prompt_pages", &Generation::prompt_pages,
           "The full pages of the first prompt, for a text that begins with the same tokens.")
      .def(
          "next",
          [](Generation& x) {
            const WithoutGil released;
            return x.next();
          },
          "A token of each text, -1 for those that have ended; empty when all have.");
}

void bind_speculation(py::module_& m) {
  using llm::Drafter;
  using llm::Speculation;
  py::class_<Drafter, std::shared_ptr<Drafter>>(m, "LlmDrafter",
                                                "Guesses of what comes next in a text.")
      .def_static(
          "ngram",
          [](std::int64_t longest) -> std::shared_ptr<Drafter> {
            return std::make_shared<llm::NgramDrafter>(longest);
          },
          py::arg("longest"))
      .def_static(
          "model",
          [](const std::shared_ptr<Runner>& runner, bool use_graph) -> std::shared_ptr<Drafter> {
            return std::make_shared<llm::ModelDrafter>(runner, use_graph);
          },
          py::arg("runner"), py::arg("use_graph"))
      .def_static(
          "layers",
          [](const std::shared_ptr<Runner>& runner, std::int64_t num_layers,
             bool use_graph) -> std::shared_ptr<Drafter> {
            return std::make_shared<llm::LayerDrafter>(runner, num_layers, use_graph);
          },
          py::arg("runner"), py::arg("num_layers"), py::arg("use_graph"))
      .def_static(
          "jacobi",
          []() -> std::shared_ptr<Drafter> { return std::make_shared<llm::JacobiDrafter>(); })
      .def_static(
          "lookahead",
          [](std::int64_t window, std::int64_t ngram,
             std::int64_t guesses) -> std::shared_ptr<Drafter> {
            return std::make_shared<llm::LookaheadDrafter>(window, ngram, guesses);
          },
          py::arg("window"), py::arg("ngram"), py::arg("guesses"));
  py::class_<Speculation>(m, "LlmSpeculation", "A text that grows by several tokens a step.")
      .def(py::init([](const std::shared_ptr<Runner>& runner, const Tokens& prompt,
                       const llm::GenerationOptions& options,
                       const std::shared_ptr<Drafter>& drafter, std::int64_t max_drafts,
                       std::int64_t max_branches) {
             const WithoutGil released;
             return std::make_unique<Speculation>(runner, prompt, options, drafter,
                                                  Speculation::Options{max_drafts, max_branches});
           }),
           py::arg("runner"), py::arg("prompt"), py::arg("options"), py::arg("drafter"),
           py::arg("max_drafts"), py::arg("max_branches"))
      .def(
          "next",
          [](Speculation& x) {
            const WithoutGil released;
            return x.next();
          },
          "The next tokens, one or more; empty at the end.")
      .def_property_readonly("steps", [](const Speculation& x) { return x.stats().steps; })
      .def_property_readonly("tokens", [](const Speculation& x) { return x.stats().tokens; })
      .def_property_readonly("drafted", [](const Speculation& x) { return x.stats().drafted; })
      .def_property_readonly("accepted", [](const Speculation& x) { return x.stats().accepted; });
}

}  // namespace

void bind_llm(py::module_& m) {
  bind_model(m);
  bind_runner(m);
  bind_generation(m);
  bind_speculation(m);
}

}  // namespace gpk::bind
