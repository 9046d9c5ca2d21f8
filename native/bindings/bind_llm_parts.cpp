// What a language model is made of: the specs of families, and the numbers and weights of a model.
#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "llm/config_json.h"
#include "llm/model_folder.h"
#include "llm/rope_table.h"
#include "llm/weight_layout.h"

namespace gpk::bind {
namespace {

using llm::Model;
using llm::ModelSpec;

py::dict spec_dict(const ModelSpec& spec) {
  py::dict d;
  d["name"] = spec.name;
  d["hf_model_type"] = spec.hf_model_type;
#define GPK_SPEC_TENSOR(field) d[#field] = spec.field;
#include "llm/spec_tensors.def"
  d["prefix"] = spec.prefix;
  d["ignored"] = py::tuple(py::cast(spec.ignored));
  d["norm_type"] = spec.norm == llm::NormKind::kRms ? "rmsnorm" : "layernorm";
  d["activation"] = spec.activation == llm::MlpActivation::kSilu ? "silu" : "gelu";
  d["use_rope"] = spec.use_rope;
  d["qkv_combined"] = spec.qkv_combined;
  d["gate_up_combined"] = spec.gate_up_combined;
  d["weight_transpose"] = spec.weight_transpose;
  d["attention_bias"] = spec.attention_bias;
  d["scale_embeddings"] = spec.scale_embeddings;
  d["norm_offset"] = spec.norm_offset;
  d["default_norm_eps"] = spec.default_norm_eps;
  d["default_rope_theta"] = spec.default_rope_theta;
  return d;
}

template <class T>
T field(const py::dict& d, const char* name) {
  if (!d.contains(name)) throw InvalidArgument(cat("load: the spec has no ", name));
  try {
    return py::cast<T>(d[name]);
  } catch (const py::cast_error&) {
    throw InvalidArgument(Error::Kind::kType,
                          cat("load: ", name, " of the spec is ", safe_repr(py::object(d[name]))));
  }
}

// One of two names.
bool is_first(const py::dict& d, const char* name, const char* first, const char* second) {
  const auto text = field<std::string>(d, name);
  if (text != first && text != second)
    throw InvalidArgument(cat("load: ", name, " of the spec is '", shorten(text, 80),
                              "', expected ", first, " or ", second));
  return text == first;
}

ModelSpec spec_from(const py::dict& d) {
  ModelSpec spec;
  spec.name = field<std::string>(d, "name");
  spec.hf_model_type = field<std::string>(d, "hf_model_type");
#define GPK_SPEC_TENSOR(tensor) spec.tensor = field<std::string>(d, #tensor);
#include "llm/spec_tensors.def"
  spec.prefix = field<std::string>(d, "prefix");
  spec.ignored = field<std::vector<std::string>>(d, "ignored");
  spec.norm = is_first(d, "norm_type", "rmsnorm", "layernorm") ? llm::NormKind::kRms
                                                               : llm::NormKind::kLayer;
  spec.activation = is_first(d, "activation", "silu", "gelu") ? llm::MlpActivation::kSilu
                                                              : llm::MlpActivation::kGelu;
  spec.use_rope = field<bool>(d, "use_rope");
  spec.qkv_combined = field<bool>(d, "qkv_combined");
  spec.gate_up_combined = field<bool>(d, "gate_up_combined");
  spec.weight_transpose = field<bool>(d, "weight_transpose");
  spec.attention_bias = field<bool>(d, "attention_bias");
  spec.scale_embeddings = field<bool>(d, "scale_embeddings");
  spec.norm_offset = field<double>(d, "norm_offset");
  spec.default_norm_eps = field<double>(d, "default_norm_eps");
  spec.default_rope_theta = field<double>(d, "default_rope_theta");
  return spec;
}

py::dict config_dict(const Model& model) {
  const llm::ModelConfig& c = model.config();
  py::dict d;
  d["vocab_size"] = c.vocab_size;
  d["hidden_size"] = c.hidden_size;
  d["num_layers"] = c.num_layers;
  d["num_heads"] = c.num_heads;
  d["num_kv_heads"] = c.num_kv_heads;
  d["head_dim"] = c.head_dim;
  d["intermediate_size"] = c.intermediate_size;
  d["max_positions"] = c.max_positions;
  d["norm_eps"] = c.norm_eps;
  d["tie_word_embeddings"] = c.tie_word_embeddings;
  d["rope_theta"] = c.rope.theta;
  d["window"] = c.window;
  d["has_window"] = c.has_window;
  d["attention_softcap"] = c.attention_softcap;
  d["final_softcap"] = c.final_softcap;
  d["attention_scale"] = c.attention_scale;
  d["embedding_scale"] = c.embedding_scale;
  d["num_experts"] = c.num_experts;
  d["experts_per_token"] = c.experts_per_token;
  d["renormalize_experts"] = c.renormalize_experts;
  return d;
}

py::list tensors_of(const std::string& config) {
  const Json json = parse_json(config, "config.json");
  const ModelSpec& spec = llm::spec_of_type(llm::model_type_of(json));
  py::list tensors;
  for (const llm::Weight& weight : llm::weight_layout(spec, llm::read_config(json, spec)))
    for (const llm::WeightPart& part : weight.parts)
      tensors.append(
          py::make_tuple(part.tensor, to_tuple(part.shape), llm::to_string(weight.role)));
  return tensors;
}

std::shared_ptr<Model> load_files(const std::string& path, const std::string& config,
                                  const py::dict& spec, py::handle dtype, py::handle device) {
  const ModelSpec family = spec_from(spec);
  const Json json = parse_json(config, "config.json");
  llm::LoadOptions options;
  options.dtype = optional_dtype(dtype, "load");
  const Device where = device_from_python(device, "load");
  const WithoutGil released;
  return llm::load_model(path, json, family, where, options);
}

py::object weight_of(const Model& model, const std::string& role, std::int64_t layer) {
  if (layer < -1 || layer >= model.config().num_layers)
    throw InvalidArgument(
        cat("llm_weight: layer is ", layer, ", expected -1 to ", model.config().num_layers - 1));
  for (int i = 1; i < llm::kNumRoles; ++i) {
    const auto which = static_cast<llm::Role>(i);
    if (llm::to_string(which) != role) continue;
    const std::optional<Array>& array = model.weight(which, layer);
    if (!array) return py::none();
    return py::reinterpret_steal<py::object>(make_array_object(*array));
  }
  throw InvalidArgument(cat("llm_weight: role is '", shorten(role, 80), "', which no model has"));
}

py::tuple rope_table_of(const Model& model, std::int64_t positions, bool local) {
  const llm::ModelConfig& c = model.config();
  if (positions < 1 || positions > c.max_positions)
    throw InvalidArgument(
        cat("llm_rope_table: positions is ", positions, ", expected 1 to ", c.max_positions));
  const auto table = [&] {
    const WithoutGil released;
    return llm::make_rope_table(local ? c.local_rope : c.rope, positions, model.device());
  }();
  const auto object = [](const Array& array) {
    return py::reinterpret_steal<py::object>(make_array_object(array));
  };
  return py::make_tuple(object(table.cos), object(table.sin));
}

}  // namespace

void bind_llm_parts(py::module_& m) {
  m.def(
      "llm_specs",
      [] {
        py::list specs;
        for (const ModelSpec& spec : llm::model_specs()) specs.append(spec_dict(spec));
        return specs;
      },
      "The known families of language models, as data.");
  m.def(
      "llm_detect_family",
      [](const std::vector<std::string>& tensors) { return llm::detect_spec(tensors).name; },
      py::arg("tensors"), "The family whose tensors have such names.");
  m.def("llm_tensors", &tensors_of, py::arg("config"),
        "Name, shape and role of every tensor of a model, by the text of its config.json.");
  m.def("llm_load_files", &load_files, py::arg("path"), py::arg("config"), py::arg("spec"),
        py::arg("dtype"), py::arg("device"),
        "A model from weight files, the text of a config.json and a spec.");
  m.def("llm_config", &config_dict, py::arg("model"), "The numbers of a model.");
  m.def("llm_weight", &weight_of, py::arg("model"), py::arg("role"), py::arg("layer"),
        "A weight of a layer, or of the whole model (-1); None where it has no such weight.");
  m.def("llm_rope_table", &rope_table_of, py::arg("model"), py::arg("positions"), py::arg("local"),
        "(cos, sin) of the positions, of layers with a window or of others.");
}

}  // namespace gpk::bind
