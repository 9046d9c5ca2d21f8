// GPUArray as a C-API type: a Python object that holds just an Array.
#pragma once

#include "bindings/python.h"
#include "core/array.h"

namespace gpk::bind {

struct ArrayObject {
  PyObject_HEAD PyObject* weak_references;
  Array array;
};

// The type, ready after bind_array().
PyTypeObject* array_type() noexcept;

inline bool is_array(PyObject* object) noexcept {
  return Py_TYPE(object) == array_type() || PyType_IsSubtype(Py_TYPE(object), array_type());
}

inline Array& array_of(PyObject* object) noexcept {
  return reinterpret_cast<ArrayObject*>(object)->array;
}

// New reference; throws error_already_set when Python is out of memory.
PyObject* make_array_object(Array array);

}  // namespace gpk::bind

namespace pybind11::detail {

// Lets functions bound with pybind11 take and return gpk::Array.
template <>
struct type_caster<gpk::Array> {
  static constexpr auto name = const_name("GPUArray");
  template <class>
  using cast_op_type = gpk::Array&;
  operator gpk::Array&() { return *value_; }
  bool load(handle source, bool) {
    if (!source || !gpk::bind::is_array(source.ptr())) return false;
    value_ = &gpk::bind::array_of(source.ptr());
    return true;
  }
  static handle cast(gpk::Array array, return_value_policy, handle) {
    return gpk::bind::make_array_object(std::move(array));
  }

 private:
  gpk::Array* value_ = nullptr;
};

}  // namespace pybind11::detail
