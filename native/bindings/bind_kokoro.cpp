// Text-to-speech: the Kokoro model.
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "speech/kokoro_model.h"

namespace gpk::bind {
namespace {

using speech::KokoroModel;

std::shared_ptr<KokoroModel> make_kokoro(const std::string& config, const py::dict& tensors,
                                         py::handle dtype) {
  std::map<std::string, Array> arrays;
  for (const auto& [key, value] : tensors) {
    const auto name = text_from_python(key);
    if (!name) bad_argument("kokoro", "tensors", tensors, "a dict with names as keys");
    if (!is_array(value.ptr()))
      bad_argument("kokoro", cat("tensors['", shorten(*name, 80), "']").c_str(), value,
                   "a GPUArray");
    arrays.emplace(*name, array_of(value.ptr()));
  }
  const DType wanted = optional_dtype(dtype, "kokoro").value_or(DType::kFloat32);
  const WithoutGil released;
  const speech::KokoroConfig numbers =
      speech::read_kokoro_config(parse_json(config, "kokoro: config.json"));
  return std::make_shared<KokoroModel>(numbers, speech::KokoroWeights(arrays), wanted);
}

std::optional<Array> kokoro_array(py::handle value, const char* name) {
  if (value.is_none()) return std::nullopt;
  if (!is_array(value.ptr())) bad_argument("kokoro", name, value, "a GPUArray or None");
  return array_of(value.ptr());
}

py::tuple run_kokoro(const KokoroModel& model, const std::vector<std::int64_t>& tokens,
                     py::handle style, double speed, const std::vector<std::int64_t>& durations,
                     py::handle pitch, py::handle energy, py::handle noise, std::uint64_t seed,
                     py::handle trace) {
  if (!is_array(style.ptr())) bad_argument("kokoro", "style", style, "a GPUArray");
  speech::KokoroOptions options;
  options.speed = speed;
  options.durations = durations;
  options.pitch = kokoro_array(pitch, "pitch");
  options.energy = kokoro_array(energy, "energy");
  options.noise.values = kokoro_array(noise, "noise");
  options.noise.state.key = seed;
  if (!trace.is_none())
    options.trace = [&](std::string_view stage, const Array& value) {
      const WithGil gil;
      call_function(trace, py::make_tuple(std::string(stage), py::cast(value)));
    };
  const Array row = array_of(style.ptr());
  const auto speech = [&] {
    const WithoutGil released;
    return model.run(tokens, row, options);
  }();
  return py::make_tuple(py::cast(speech.samples), speech.durations);
}

}  // namespace

void bind_kokoro(py::module_& m) {
  py::class_<KokoroModel, std::shared_ptr<KokoroModel>>(m, "KokoroModel",
                                                        "Text-to-speech of phonemes in a style.")
      .def(py::init(&make_kokoro), py::arg("config"), py::arg("tensors"),
           py::arg("dtype") = py::none())
      .def_property_readonly(
          "dtype",
          [](const KokoroModel& model) {
            return py::reinterpret_borrow<py::object>(dtype_object(model.dtype()));
          },
          "Of the decoder's convolutions.")
      .def_property_readonly("device",
                             [](const KokoroModel& model) { return to_string(model.device()); })
      .def_property_readonly("num_parameters", &KokoroModel::num_parameters)
      .def_property_readonly(
          "max_tokens",
          [](const KokoroModel& model) { return model.config().plbert.max_positions; },
          "Of one call, the padding at both ends included.")
      .def_property_readonly(
          "samples_per_frame",
          [](const KokoroModel& model) { return model.config().samples_per_duration(); },
          "Samples of one frame of a duration.")
      .def("run", run_kokoro, py::arg("tokens"), py::arg("style"), py::kw_only(),
           py::arg("speed") = 1.0, py::arg("durations") = std::vector<std::int64_t>(),
           py::arg("pitch") = py::none(), py::arg("energy") = py::none(),
           py::arg("noise") = py::none(), py::arg("seed") = 0, py::arg("trace") = py::none(),
           "(samples, frames of each token). Durations, pitch, energy and noise replace what the "
           "model predicts and draws; trace(stage, array) gets intermediate results.");
}

}  // namespace gpk::bind
