#include "bindings/arguments.h"

#include "bindings/array_object.h"
#include "bindings/axes.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/output.h"

namespace gpk::bind {

void Arguments::refuse(int i, const char* expected) const {
  bad_argument(op(), name(i), slots_[i], expected);
}

const Array& Arguments::array(int i) const {
  if (!is_array(slots_[i])) refuse(i, "a GPUArray");
  return array_of(slots_[i]);
}

const Array& Arguments::array_like(int i) const {
  if (is_array(slots_[i])) [[likely]]
    return array_of(slots_[i]);
  const Array* beside = nullptr;
  for (int k = 0; k < size() && beside == nullptr; ++k)
    if (is_array(slots_[k])) beside = &array_of(slots_[k]);
  if (!is_list(slots_[i])) refuse(i, "a GPUArray");
  made_.push_front(array_from_list(slots_[i], beside, op(), name(i)));
  return made_.front();
}

const Array& Arguments::array_like(int i, const Array& beside) const {
  if (is_array(slots_[i])) return array_of(slots_[i]);
  if (!is_list(slots_[i])) refuse(i, "a GPUArray");
  made_.push_front(array_from_list(slots_[i], &beside, op(), name(i)));
  return made_.front();
}

std::optional<Array> Arguments::optional_array(int i) const {
  if (is_none(i)) return std::nullopt;
  return array(i);
}

std::optional<Array> Arguments::optional_array_like(int i) const {
  if (is_none(i)) return std::nullopt;
  return array_like(i);
}

std::int64_t Arguments::integer(int i) const { return int_from_python(slots_[i], op(), name(i)); }

std::optional<std::int64_t> Arguments::optional_integer(int i) const {
  return optional_int(slots_[i], op(), name(i));
}

Dims Arguments::integers(int i) const { return ints_from_python(slots_[i], op(), name(i)); }

std::optional<Dims> Arguments::optional_integers(int i) const {
  return optional_ints(slots_[i], op(), name(i));
}

Dims Arguments::shape(int i) const { return shape_from_python(slots_[i], op()); }

bool Arguments::flag(int i) const {
  if (PyBool_Check(slots_[i])) return slots_[i] == Py_True;
  if (is_none(i)) return false;
  const PyNumberMethods* methods = Py_TYPE(slots_[i])->tp_as_number;
  if (methods == nullptr || methods->nb_bool == nullptr) refuse(i, "a bool");
  return is_true(slots_[i]);
}

std::optional<bool> Arguments::optional_flag(int i) const {
  if (is_none(i)) return std::nullopt;
  if (!PyBool_Check(slots_[i])) refuse(i, "True, False or None");
  return slots_[i] == Py_True;
}

double Arguments::number(int i) const {
  const double value = PyFloat_AsDouble(slots_[i]);
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    clear_if(PyExc_TypeError, PyExc_OverflowError);
    refuse(i, "a number");
  }
  return value;
}

std::string Arguments::text(int i) const {
  auto text = text_from_python(slots_[i]);
  if (!text) refuse(i, "a str");
  return std::move(*text);
}

DType Arguments::dtype(int i) const { return dtype_from_python(slots_[i], op()); }

std::optional<DType> Arguments::optional_dtype(int i) const {
  if (is_none(i)) return std::nullopt;
  return dtype(i);
}

Device Arguments::device(int i) const { return device_from_python(slots_[i], op()); }

std::optional<Array> Arguments::out(int i) const {
  const Array* given = output_from_python(slots_[i], op());
  return given != nullptr ? std::optional(*given) : std::nullopt;
}

}  // namespace gpk::bind
