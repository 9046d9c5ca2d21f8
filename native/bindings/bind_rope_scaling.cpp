// Frequencies of rotary positions, by the "rope_scaling" of a config.json.
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "ops/nn/rope_scaling.h"

namespace gpk::bind {
namespace {

// None counts as not given.
class ScalingFields {
 public:
  ScalingFields(const py::dict& fields, const char* op) : fields_(fields), op_(op) {}

  [[nodiscard]] py::object find(const char* key) const {
    return fields_.contains(key) ? py::object(fields_[key]) : py::none();
  }
  [[nodiscard]] double number(const char* key, double otherwise = 0.0) const {
    const py::object value = find(key);
    return value.is_none() ? otherwise : checked(value, key);
  }
  [[nodiscard]] bool flag(const char* key, bool otherwise) const {
    const py::object value = find(key);
    if (value.is_none()) return otherwise;
    if (!PyBool_Check(value.ptr())) refuse(value, key, "True or False");
    return value.ptr() == Py_True;
  }
  [[nodiscard]] std::vector<double> numbers(const char* key) const {
    std::vector<double> result;
    const py::object value = find(key);
    if (value.is_none()) return result;
    if (PySequence_Check(value.ptr()) == 0) refuse(value, key, "a sequence of numbers");
    for (const py::handle item : items_from_python(value)) result.push_back(checked(item, key));
    return result;
  }

 private:
  [[nodiscard]] double checked(py::handle value, const char* key) const {
    if (!PyFloat_Check(value.ptr()) && !PyLong_Check(value.ptr())) refuse(value, key, "a number");
    const double number = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred() != nullptr) clear_if(PyExc_OverflowError);
    if (!(number > 0.0) || !std::isfinite(number)) refuse(value, key, "a number above 0");
    return number;
  }
  [[noreturn]] void refuse(py::handle value, const char* key, const char* expected) const {
    throw InvalidArgument(
        cat(op_, ": ", key, " of the scaling is ", safe_repr(value), ", expected ", expected));
  }

  const py::dict& fields_;
  const char* op_;
};

ops::RopeScaling scaling_from(const py::dict& given, const char* op) {
  const ScalingFields fields(given, op);
  ops::RopeScaling s;
  py::object kind = fields.find("rope_type");
  if (kind.is_none()) kind = fields.find("type");
  if (!kind.is_none()) {
    const std::optional<std::string> text = text_from_python(kind);
    s.kind = ops::rope_kind_named(text ? *text : safe_repr(kind), op);
  }
  s.factor = fields.number("factor");
  s.original_max_positions = fields.number("original_max_position_embeddings");
  s.low_freq_factor = fields.number("low_freq_factor");
  s.high_freq_factor = fields.number("high_freq_factor");
  s.beta_fast = fields.number("beta_fast", s.beta_fast);
  s.beta_slow = fields.number("beta_slow", s.beta_slow);
  s.truncate = fields.flag("truncate", s.truncate);
  s.attention_factor = fields.number("attention_factor");
  s.mscale = fields.number("mscale");
  s.mscale_all_dim = fields.number("mscale_all_dim");
  s.short_factor = fields.numbers("short_factor");
  s.long_factor = fields.numbers("long_factor");
  return s;
}

}  // namespace

void bind_rope_scaling(py::module_& m) {
  m.def(
      "rope_spectrum",
      [](const std::string& op, std::int64_t dim, double base, const py::dict& scaling,
         std::int64_t max_positions) {
        ops::RopeSpectrum found = ops::rope_spectrum(dim, base, scaling_from(scaling, op.c_str()),
                                                     max_positions, op.c_str());
        return std::pair(std::move(found.frequencies), found.factor);
      },
      py::arg("op"), py::arg("dim"), py::arg("base"), py::arg("scaling"), py::arg("max_positions"),
      "(angle per position of each pair, factor of cosines and sines) of a rope_scaling.");
}

}  // namespace gpk::bind
